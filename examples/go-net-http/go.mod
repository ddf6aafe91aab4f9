module example.com/user-group-service/examples/go-net-http

go 1.26.0

require (
	example.com/user-group-service/client-go v0.0.0
	google.golang.org/protobuf v1.36.12
)

require (
	connectrpc.com/connect v1.21.1 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261026165753-2ffab32bce7e // indirect
)

replace example.com/user-group-service/client-go => ../../packages/client-go
