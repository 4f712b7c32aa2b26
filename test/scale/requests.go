package main

import (
	"net/http"
	"slices"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// ofManager returns the requests of the manager.
func ofManager(requests []env.Request) []env.Request {
	var found []env.Request
	for _, request := range requests {
		if request.User == managerUser {
			found = append(found, request)
		}
	}
	return found
}

func count(requests []env.Request, matches func(env.Request) bool) int {
	total := 0
	for _, request := range requests {
		if matches(request) {
			total++
		}
	}
	return total
}

func isWrite(request env.Request) bool {
	return !request.DryRun &&
		slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, request.Verb)
}

func isDryRun(request env.Request) bool { return request.DryRun }

func isEvent(request env.Request) bool { return request.Resource == "events" }

func isConflict(request env.Request) bool { return request.Code == http.StatusConflict }

func isHosts(request env.Request) bool {
	return request.Resource == "baremetalhosts" && request.Subresource == ""
}

func isClusterReport(request env.Request) bool {
	return request.Resource == "metal3clusters" && request.Subresource == "status"
}

func isHostList(request env.Request) bool { return isHosts(request) && request.Verb == "list" }
