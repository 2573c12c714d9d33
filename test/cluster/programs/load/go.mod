module drawbridge.test/load

go 1.26.0
