package secrets

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"slices"

	"golang.org/x/crypto/bcrypt"
)

const (
	// generatedUser is the user of generated credentials.
	generatedUser = "ironic"

	// passwordBytes is the number of random bytes of a generated password.
	passwordBytes = 24

	// maxPassword is the limit of bcrypt.
	maxPassword = 72

	// hashCost is the cost of Apache's htpasswd. The web server computes the hash for every request, and a generated
	// password requires no slow hash.
	hashCost = 5
)

// HashPassword returns the hash of a password for a htpasswd.
func HashPassword(password []byte) ([]byte, error) {
	return bcrypt.GenerateFromPassword(password, hashCost)
}

// credentials completes username, password and htpasswd. Given is the data of the Secret that the user named, nil if
// the user named none.
func (k *Keeper) credentials(found, given content) (map[string][]byte, error) {
	data := map[string][]byte{}
	source := found
	if given.data != nil {
		source = given
		if missing := missing(given.data, UsernameKey, PasswordKey); missing != "" {
			return nil, problemf("Secret %s, which spec.ironic.credentialsRef names, lacks %s: add it", given.name, missing)
		}
	}
	switch present(source.data, UsernameKey, PasswordKey) {
	case UsernameKey + ", " + PasswordKey:
		data[UsernameKey], data[PasswordKey] = source.data[UsernameKey], source.data[PasswordKey]
	case "":
		if len(found.data[HtpasswdKey]) > 0 {
			return nil, problemf("Secret %s has htpasswd but neither username nor password: add both, or remove htpasswd to "+
				"have all three generated", found.name)
		}
		password, err := generatePassword(k.Random)
		if err != nil {
			return nil, err
		}
		data[UsernameKey], data[PasswordKey] = []byte(generatedUser), password
	default:
		return nil, problemf("Secret %s lacks %s: add it, or remove %s to have both generated", found.name,
			missing(found.data, UsernameKey, PasswordKey), present(found.data, UsernameKey, PasswordKey))
	}
	if err := checkCredentials(source.name, data); err != nil {
		return nil, err
	}
	return data, k.completeHtpasswd(data, found, given)
}

// completeHtpasswd keeps a matching htpasswd, and creates one if there is none or if the Secret of the user has other
// credentials. With a new user name, the previous user stays valid until the next change: nodes and clients get the new
// credentials at different times. The web server accepts one password for each user name.
func (k *Keeper) completeHtpasswd(data map[string][]byte, found, given content) error {
	htpasswd := found.data[HtpasswdKey]
	switch {
	case len(htpasswd) > 0 && admits(htpasswd, data[UsernameKey], data[PasswordKey]):
		data[HtpasswdKey] = htpasswd
		if given.data != nil {
			data[HtpasswdKey] = currentFirst(htpasswd, data[UsernameKey])
		}
		return nil
	case len(htpasswd) > 0 && given.data == nil:
		return problemf("htpasswd of Secret %s does not admit its username with its password: remove htpasswd, and it is "+
			"generated again", found.name)
	}
	hash, err := k.Hash(data[PasswordKey])
	if err != nil {
		return fmt.Errorf("hashing a password: %w", err)
	}
	data[HtpasswdKey] = fmt.Appendf(nil, "%s:%s\n", data[UsernameKey], hash)
	before, _, _ := bytes.Cut(htpasswd, []byte("\n"))
	if user, _, found := bytes.Cut(before, []byte(":")); found && !bytes.Equal(user, data[UsernameKey]) {
		data[HtpasswdKey] = fmt.Appendf(data[HtpasswdKey], "%s\n", before)
	}
	return nil
}

// currentFirst returns a htpasswd with the line of the current user first. The next change keeps only this line.
func currentFirst(htpasswd, username []byte) []byte {
	var current, others []byte
	for line := range bytes.Lines(htpasswd) {
		line = slices.Concat(bytes.TrimSpace(line), []byte("\n"))
		if user, _, _ := bytes.Cut(line, []byte(":")); bytes.Equal(user, username) {
			current = append(current, line...)
		} else {
			others = append(others, line...)
		}
	}
	return append(current, others...)
}

func checkCredentials(name string, data map[string][]byte) error {
	switch {
	case bytes.ContainsAny(data[UsernameKey], ":\r\n"):
		return problemf("username of Secret %s has a colon or a line end: use letters and digits", name)
	case bytes.ContainsAny(data[PasswordKey], "\r\n"):
		return problemf("password of Secret %s has a line end: remove it", name)
	case len(data[PasswordKey]) > maxPassword:
		return problemf("password of Secret %s is longer than %d bytes: use a shorter one", name, maxPassword)
	default:
		return nil
	}
}

// admits returns true if a htpasswd has a line for a user with the hash of a password.
func admits(htpasswd, username, password []byte) bool {
	for line := range bytes.Lines(htpasswd) {
		user, hash, found := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		if found && bytes.Equal(user, username) {
			return bcrypt.CompareHashAndPassword(hash, password) == nil
		}
	}
	return false
}

func generatePassword(random io.Reader) ([]byte, error) {
	raw := make([]byte, passwordBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, fmt.Errorf("generating a password: %w", err)
	}
	return []byte(base64.RawURLEncoding.EncodeToString(raw)), nil
}
