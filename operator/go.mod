module emq/operator

go 1.26.0

replace (
	emq => ..
	emq/clients/go => ../clients/go
)

require (
	emq v0.0.0-00010101000000-000000000000
	emq/clients/go v0.0.0-00010101000000-000000000000
	github.com/oklog/ulid/v2 v2.1.2
	github.com/stretchr/testify v1.12.1
	github.com/valkey-io/valkey-go v1.0.79
	go.uber.org/goleak v1.3.0
	golang.org/x/crypto v0.59.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
