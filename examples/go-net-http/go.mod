module example.com/user-group-service/examples/go-net-http

go 1.24.0

require (
	example.com/user-group-service/client-go v0.0.0
	google.golang.org/protobuf v1.36.12
)

require (
	connectrpc.com/connect v1.19.2 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217 // indirect
)

replace example.com/user-group-service/client-go => ../../packages/client-go
