//go:build tools

// Package tools pins the programs that the tests run as peers and clients of ours:
// a registry client, a reference registry and the OCI distribution conformance runner.
// `tests/tools/build` builds them.
package tools

import (
	_ "github.com/distribution/distribution/v3/cmd/registry"
	_ "github.com/opencontainers/distribution-spec/conformance"
	_ "oras.land/oras/cmd/oras"
)
