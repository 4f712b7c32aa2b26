package metal3cluster

import (
	_ "net/http/httptest" // want depguard product-without-testing
	_ "testing"           // want depguard product-without-testing
)
