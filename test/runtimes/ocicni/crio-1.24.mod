module drawbridge.test/ocicni

go 1.21

require github.com/cri-o/ocicni v0.3.0

require (
	github.com/containernetworking/cni v1.0.1 // indirect
	github.com/containernetworking/plugins v1.1.1 // indirect
	github.com/fsnotify/fsnotify v1.5.1 // indirect
	github.com/sirupsen/logrus v1.8.1 // indirect
	github.com/vishvananda/netlink v1.1.1-0.20210811191823-e1a867c6b452 // indirect
	github.com/vishvananda/netns v0.0.0-20210104183010-2eb08e3e575f // indirect
	golang.org/x/sys v0.0.0-20211216021012-1d35b9e2eb4e // indirect
)
