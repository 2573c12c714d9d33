module drawbridge.test/sctp

go 1.26.0
