module drawbridge.test/go-cni

go 1.21

require github.com/containerd/go-cni v1.1.6

require github.com/containernetworking/cni v1.1.2 // indirect
