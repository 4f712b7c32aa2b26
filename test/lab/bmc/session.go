package bmc

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// The BMCs of a lab share one session service. A session is valid for all BMCs with its credentials.

// credentials are the credentials of a client.
type credentials struct{ username, password string }

// equal compares in constant time.
func (c credentials) equal(other credentials) bool {
	return subtle.ConstantTimeCompare([]byte(c.username), []byte(other.username))&
		subtle.ConstantTimeCompare([]byte(c.password), []byte(other.password)) == 1
}

const (
	authHeader = "X-Auth-Token"

	// sessionsResource is the name of sessions in the journal.
	sessionsResource = "sessions"
)

// readSessionService requires no credentials.
func readSessionService(writer http.ResponseWriter, _ *http.Request) {
	respond(writer, http.StatusOK, object{
		"@odata.id": sessionService, "Id": "SessionService", "Name": "Session service", "Sessions": link(sessions),
	})
}

// openSession opens a session with the credentials of one of the BMCs.
func (s *Server) openSession(writer http.ResponseWriter, request *http.Request) {
	operation := Operation{
		Time: time.Now(), Method: request.Method, Resource: sessionsResource, Status: http.StatusCreated,
	}
	var wanted struct{ UserName, Password string }
	err := json.NewDecoder(http.MaxBytesReader(writer, request.Body, bodyLimit)).Decode(&wanted)
	switch {
	case err != nil:
		operation.Status, operation.Problem = http.StatusBadRequest, "reading the request: "+err.Error()
	case !s.accepts(credentials{wanted.UserName, wanted.Password}):
		operation.Status, operation.Problem = http.StatusUnauthorized, "no BMC has this user name and password"
	}
	operation.Duration = time.Since(operation.Time)
	s.journal.add(operation)
	if operation.Problem != "" {
		respond(writer, operation.Status, failure(operation.Problem))
		return
	}
	id, token := rand.Text(), rand.Text()
	s.mutex.Lock()
	s.sessions[id] = session{token, credentials{wanted.UserName, wanted.Password}}
	s.mutex.Unlock()
	writer.Header().Set(authHeader, token)
	writer.Header().Set("Location", sessions+"/"+id)
	respond(writer, operation.Status, object{"@odata.id": sessions + "/" + id, "Id": id, "UserName": wanted.UserName})
}

// closeSession closes a session. It requires only the name of the session.
func (s *Server) closeSession(writer http.ResponseWriter, request *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.sessions, request.PathValue("id"))
	respond(writer, http.StatusNoContent, nil)
}

// session is an open session.
type session struct {
	token string
	credentials
}

// accepts returns true if a BMC has these credentials and does not refuse them.
func (s *Server) accepts(offered credentials) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, candidate := range s.controllers {
		if candidate.accepts(offered) {
			return true
		}
	}
	return false
}

func (c *controller) accepts(offered credentials) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return !c.fault.RefuseCredentials && offered.equal(c.credentials)
}

// errNoSession is the error for a token without a session.
var errNoSession = errors.New("the session has ended")

// offered returns the credentials of a request: those of its session, or its own.
func (s *Server) offered(request *http.Request) (credentials, error) {
	token := request.Header.Get(authHeader)
	if token == "" {
		username, password, _ := request.BasicAuth()
		return credentials{username, password}, nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, open := range s.sessions {
		if subtle.ConstantTimeCompare([]byte(open.token), []byte(token)) == 1 {
			return open.credentials, nil
		}
	}
	return credentials{}, errNoSession
}
