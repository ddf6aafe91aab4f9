import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.RestApi;
import org.openapitools.client.api.UserGroupServiceApi;
import org.openapitools.client.api.ViewerServiceApi;
import org.openapitools.client.model.UsergroupV1CreateViewerSessionRequest;
import org.openapitools.client.model.UsergroupV1GetUserGroupRequest;
import org.openapitools.client.model.UsergroupV1ResolveViewerRequest;

/** Calls the service with the client of openapi-generator. */
public final class Calls {
  public static void main(String[] args) throws Exception {
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("URL"));
    String authorization = "Bearer " + System.getenv("API_TOKEN");
    client.setRequestInterceptor(request -> request.header("Authorization", authorization));
    ViewerServiceApi viewers = new ViewerServiceApi(client);
    String userGroupId = System.getenv("USER_GROUP_ID");

    var group =
        new UserGroupServiceApi(client)
            .userGroupServiceGetUserGroup(
                new UsergroupV1GetUserGroupRequest()
                    .userGroupId(userGroupId)
                    .putPropertiesItem("plan", "gold")
                    .putPropertiesItem("seats", Arrays.asList(1, null)))
            .getUserGroup();
    var rest = new RestApi(client).getUser(userGroupId, null, null, null, null).getUserGroup();
    long teamId = rest.getTeamId();
    String session =
        viewers
            .viewerServiceCreateViewerSession(
                new UsergroupV1CreateViewerSessionRequest()
                    .userGroupId(userGroupId)
                    .audience("https://dashboards.example.com"))
            .getSession();
    var resolved = viewers.viewerServiceResolveViewer(new UsergroupV1ResolveViewerRequest().token(session));
    ObjectMapper json = new ObjectMapper();
    Object code = null;
    try {
      viewers.viewerServiceResolveViewer(new UsergroupV1ResolveViewerRequest().token("no-such-token"));
    } catch (ApiException error) {
      code = json.readValue(error.getResponseBody(), Map.class).get("code");
    }

    Map<String, Object> result = new LinkedHashMap<>();
    result.put("token", group.getToken());
    result.put("properties", group.getProperties());
    result.put("restToken", rest.getToken());
    result.put("teamId", teamId);
    result.put("session", session);
    result.put("providedId", resolved.getProvidedId());
    result.put("code", code);
    System.out.println(json.writeValueAsString(result));
  }
}
