package main

import (
	"context"
	"net"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "bench/gen/usergroup/v1"
	"bench/gen/usergroup/v1/usergroupv1connect"
)

type grpcServer struct {
	v1.UnimplementedUserGroupServiceServer
	work *Work
}

// serveGrpc runs a typical gRPC server with grpc-go and rueidis.
func serveGrpc(listener net.Listener, work *Work) error {
	server := grpc.NewServer()
	v1.RegisterUserGroupServiceServer(server, &grpcServer{work: work})
	return server.Serve(listener)
}

func (s *grpcServer) GetUserGroup(ctx context.Context, request *v1.GetUserGroupRequest) (*v1.GetUserGroupResponse, error) {
	authorization := ""
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) > 0 {
		authorization = values[0]
	}
	response, err := getUserGroup(ctx, s.work, authorization, request)
	if err != nil {
		return nil, status.Error(codes.Internal, "failed")
	}
	return response, nil
}

type connectServer struct {
	usergroupv1connect.UnimplementedUserGroupServiceHandler
	work *Work
}

// serveConnect runs a typical Connect and gRPC server with connect-go and rueidis.
func serveConnect(listener net.Listener, work *Work) error {
	mux := http.NewServeMux()
	mux.Handle(usergroupv1connect.NewUserGroupServiceHandler(&connectServer{work: work}))
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server.Serve(listener)
}

func (s *connectServer) GetUserGroup(ctx context.Context, request *connect.Request[v1.GetUserGroupRequest]) (*connect.Response[v1.GetUserGroupResponse], error) {
	response, err := getUserGroup(ctx, s.work, request.Header().Get("Authorization"), request.Msg)
	if err != nil {
		return nil, connect.NewError(connect.CodeInternal, nil)
	}
	return connect.NewResponse(response), nil
}

func getUserGroup(ctx context.Context, work *Work, authorization string, request *v1.GetUserGroupRequest) (*v1.GetUserGroupResponse, error) {
	group, err := work.read(ctx, authorization, request.UserGroupId)
	if err != nil {
		return nil, err
	}
	var properties *structpb.Struct
	if group.Properties != nil {
		if properties, err = structpb.NewStruct(group.Properties); err != nil {
			return nil, err
		}
	}
	return &v1.GetUserGroupResponse{UserGroup: &v1.UserGroup{
		TeamId:            group.TeamID,
		Token:             group.Token,
		Name:              group.Name,
		ProvidedId:        group.ProvidedID,
		Mapping:           group.Mapping,
		Properties:        properties,
		ApiEnvironmentTag: v1.ApiEnvironmentTag_API_ENVIRONMENT_TAG_CUSTOMER,
		Etag:              group.Etag,
		CreateTime:        timestamppb.New(group.CreateTime),
		UpdateTime:        timestamppb.New(group.UpdateTime),
		TokenCreateTime:   timestamppb.New(group.TokenCreateTime),
	}}, nil
}
