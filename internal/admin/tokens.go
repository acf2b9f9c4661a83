package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"

	"example.com/billing/internal/audit"
)

// Role is what a token may do. Each one may do what those before it may.
type Role uint8

// The roles.
const (
	Viewer   Role = iota + 1 // sees lists, never a payload
	Operator                 // sees payloads and replays
	Approver
)

func (r Role) String() string { return [...]string{"none", "viewer", "operator", "approver"}[r] }

// publicTokens stand in this repository: in its documents, its compose file, its demo and its tests. A test looks for more.
var publicTokens = [...]string{
	"demo-operator-token",
	"local-only-operator-token",
	"viewer-token-0123456789", "operator-token-0123456", "approver-token-0123456",
	"0123456789abcdef", "0123456789abcdeg", "0123:456789abcdef",
	"secret-three-secret-three",
}

// minTokenLength makes guessing hopeless, given that the token was made by a machine.
const minTokenLength = 16

// Token lets its bearer in. The text itself is not kept.
type Token struct {
	Name string
	Role Role
	hash [sha256.Size]byte
}

// ParseTokens reads `name:role:token,…`. Nothing of a token stands in an error. An empty text gives no tokens.
func ParseTokens(text string) ([]Token, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var tokens []Token
	var problems []error
	names, owners := map[string]bool{}, map[[sha256.Size]byte]string{}
	for i, entry := range strings.Split(text, ",") {
		t, err := parseToken(strings.TrimSpace(entry))
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("admin token %d: %w", i+1, err))
		case names[t.Name]:
			problems = append(problems, fmt.Errorf("admin token %d: the name %q stands twice", i+1, t.Name))
		case owners[t.hash] != "":
			problems = append(problems, fmt.Errorf("admin token %d: %q and %q have the same token, so nobody could tell who acted; give each its own",
				i+1, owners[t.hash], t.Name))
		default:
			names[t.Name], owners[t.hash] = true, t.Name
			tokens = append(tokens, t)
		}
	}
	return tokens, errors.Join(problems...)
}

func parseToken(entry string) (Token, error) {
	name, rest, ok1 := strings.Cut(entry, ":")
	role, secret, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 {
		return Token{}, errors.New("want name:role:token, such as alice:operator:…")
	}
	if !legalName(name) {
		return Token{}, errors.New("the name must be 1 to 64 of letters, digits and . _ - @")
	}
	t := Token{Name: name, hash: sha256.Sum256([]byte(secret))}
	for _, r := range []Role{Viewer, Operator, Approver} {
		if role == r.String() {
			t.Role = r
		}
	}
	if t.Role == 0 {
		return Token{}, fmt.Errorf("%q has no role viewer, operator or approver between the colons", name)
	}
	if len(secret) < minTokenLength {
		return Token{}, fmt.Errorf("the token of %q is shorter than %d characters", name, minTokenLength)
	}
	if strings.Trim(secret, visible) != "" {
		return Token{}, fmt.Errorf("the token of %q has a space or a character that is not visible ASCII", name)
	}
	return t, nil
}

// RefusePublic is an error if a token is one that everyone can read in this repository.
func RefusePublic(tokens []Token) error {
	var problems []error
	for _, t := range tokens {
		for _, public := range publicTokens {
			if t.hash == sha256.Sum256([]byte(public)) {
				problems = append(problems, fmt.Errorf("the token of %q stands in this service's documents or tests, so everyone knows it; "+
					"make your own: openssl rand -hex 24 (only with BILLING_ENVIRONMENT=local is it taken)", t.Name))
			}
		}
	}
	return errors.Join(problems...)
}

func legalName(name string) bool {
	const legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@"
	return name != "" && len(name) <= 64 && strings.Trim(name, legal) == ""
}

// visible are the characters that a header carries as they are.
const visible = "!\"#$%&'()*+-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// find compares with every token, in a time that does not depend on which one is right.
func find(tokens []Token, secret string) (Token, bool) {
	hash := sha256.Sum256([]byte(secret))
	at := -1
	for i, t := range tokens {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], t.hash[:]), i, at)
	}
	if at < 0 {
		return Token{}, false
	}
	return tokens[at], true
}

func (t Token) actor() audit.Actor { return audit.Actor{Name: t.Name, Role: t.Role.String()} }
