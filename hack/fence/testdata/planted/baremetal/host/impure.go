package host

import (
	_ "context"       // want depguard domain-is-pure
	_ "crypto/rand"   // want depguard domain-is-pure
	_ "log/slog"      // want depguard domain-is-pure
	_ "math/rand"     // want depguard domain-is-pure
	_ "math/rand/v2"  // want depguard domain-is-pure
	_ "net/http"      // want depguard domain-is-pure
	_ "os"            // want depguard domain-is-pure
	_ "os/exec"       // want depguard domain-is-pure
	_ "path/filepath" // not denied: it only computes
)
