// A back end with a page. The page sends a viewer session to get its data.
package main

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	usergroups "example.com/user-group-service/client-go"
	usergroupv1 "example.com/user-group-service/client-go/gen/usergroup/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	audience = "dashboards"
	policy   = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"
)

//go:embed page.html page.js
var page embed.FS

type backEnd struct {
	client   *usergroups.Client
	verifier *usergroups.Verifier
}

type person struct{ name, customer string }

// loggedIn returns the person who is logged in. The second result is false if nobody is logged in. Replace this
// function with your own login.
func loggedIn(*http.Request) (person, bool) {
	return person{name: "bob", customer: "acme"}, true
}

func main() {
	url := cmp.Or(os.Getenv("UGS_URL"), "http://127.0.0.1:8080")
	environment := cmp.Or(os.Getenv("UGS_ENVIRONMENT"), "dev/Customer")
	client, err := usergroups.New(url, usergroups.StaticToken(os.Getenv("API_TOKEN")), usergroups.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := createGroup(client); err != nil {
		log.Fatal(usergroups.ReasonOf(err), " ", err)
	}

	b := &backEnd{client: client, verifier: usergroups.NewVerifier(url+"/e/"+environment, audience)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /viewer-session", b.viewerSession)
	mux.HandleFunc("GET /data", b.data)
	for path, file := range map[string]string{"GET /{$}": "page.html", "GET /page.js": "page.js"} {
		mux.HandleFunc(path, func(response http.ResponseWriter, request *http.Request) {
			http.ServeFileFS(response, request, page, file)
		})
	}
	address := "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "3000")
	log.Print("open http://", address)
	server := &http.Server{Addr: address, Handler: ofThisPage(address, mux), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// createGroup creates the group of the customer. If the group exists, createGroup changes nothing. Call this function
// where you create customers.
func createGroup(client *usergroups.Client) error {
	properties, err := structpb.NewStruct(map[string]any{"plan": "gold"})
	if err != nil {
		return err
	}
	name := "Acme"
	_, err = client.UserGroups.GetUserGroup(context.Background(), &usergroupv1.GetUserGroupRequest{
		UserGroupId: "acme", Name: &name, Properties: properties,
	})
	return err
}

// ofThisPage redirects requests for other host names to the page. It refuses POST requests that come from other sites.
// Browsers add the cookie of the viewer even to these requests.
func ofThisPage(host string, next http.Handler) http.Handler {
	origin := "http://" + host
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.Host != host {
			http.Redirect(response, request, origin, http.StatusTemporaryRedirect)
			return
		}
		// Browsers from before 2023 send only Origin.
		site := cmp.Or(request.Header.Get("Sec-Fetch-Site"), request.Header.Get("Origin"))
		if request.Method == http.MethodPost && site != "same-origin" && site != origin {
			http.Error(response, "requests from other sites are refused", http.StatusForbidden)
			return
		}
		response.Header().Set("Content-Security-Policy", policy)
		next.ServeHTTP(response, request)
	})
}

// viewerSession creates a session for the person who is logged in. The page receives no token.
func (b *backEnd) viewerSession(response http.ResponseWriter, request *http.Request) {
	person, ok := loggedIn(request)
	if !ok {
		http.Error(response, "log in", http.StatusUnauthorized)
		return
	}
	made, err := b.client.Viewers.CreateViewerSession(request.Context(), &usergroupv1.CreateViewerSessionRequest{
		Group:        &usergroupv1.CreateViewerSessionRequest_UserGroupId{UserGroupId: person.customer},
		Audience:     audience,
		ViewerId:     person.name,
		PropertyKeys: []string{"plan"},
	})
	if err != nil {
		log.Print("the call failed: ", usergroups.ReasonOf(err), " ", err)
		http.Error(response, "try again", http.StatusServiceUnavailable)
		return
	}
	response.Header().Set("Cache-Control", "no-store")
	answer(response, map[string]any{"session": made.Session})
}

// data verifies the viewer session of a request, and responds with the data for the page. A back end needs no API token
// to verify a session.
func (b *backEnd) data(response http.ResponseWriter, request *http.Request) {
	session := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	viewer, err := b.verifier.VerifyViewerSession(request.Context(), session)
	if errors.Is(err, usergroups.ErrInvalidViewerSession) {
		response.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(response, err.Error(), http.StatusUnauthorized)
		return
	} else if err != nil {
		log.Print(err)
		http.Error(response, "try again", http.StatusServiceUnavailable)
		return
	}
	answer(response, map[string]any{"customer": viewer.UserGroupID, "viewer": viewer.ViewerID, "plan": viewer.Properties["plan"]})
}

func answer(response http.ResponseWriter, body any) {
	response.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(response).Encode(body); err != nil {
		log.Print(err)
	}
}
