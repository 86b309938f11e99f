module go-delayqueue

go 1.18

require (
	github.com/hdt3213/delayqueue v1.1.2
	github.com/redis/go-redis/v9 v9.0.5
	measure v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/google/uuid v1.3.0 // indirect
)

replace measure => ../measure
