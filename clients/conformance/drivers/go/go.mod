module emq/clients/conformance/drivers/go

go 1.26.0

replace (
	emq => ../../../..
	emq/clients/go => ../../../go
)

require (
	emq/clients/go v0.0.0-00010101000000-000000000000
	github.com/valkey-io/valkey-go v1.0.79
)

require golang.org/x/sys v0.48.0 // indirect
