module emq/operator

go 1.26.0

replace (
	emq => ..
	emq/clients/go => ../clients/go
)

require (
	emq v0.0.0-00010101000000-000000000000
	emq/clients/go v0.0.0-00010101000000-000000000000
	golang.org/x/crypto v0.59.0
)

require (
	github.com/valkey-io/valkey-go v1.0.79 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
