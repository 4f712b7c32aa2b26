package controllers_test

import (
	"testing"
	"time"
)

func TestPlanted(t *testing.T) {
	time.Sleep(time.Millisecond) // want forbidigo poll with a deadline
	_ = time.Now()
}
