package secretfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotferry/slotferry/internal/testcert"
)

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // what umask has taken away
		t.Fatal(err)
	}
	return path
}

// refused checks that an error says what is wrong and what to do, and nothing of
// what is in the file.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	var e *Error
	if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &e) || e.Hint() == "" || strings.Contains(err.Error(), "correct") {
		t.Errorf("error is %v, want %q in it, and a hint", err, want)
	}
}

func TestToken(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o400, 0o640} {
		if got, err := Token(write(t, "correct-horse-battery\n", mode)); err != nil || got != "correct-horse-battery" {
			t.Errorf("mode %o: token is %q, %v", mode, got, err)
		}
	}
	for _, mode := range []os.FileMode{0o644, 0o660, 0o604} {
		_, err := Token(write(t, "correct-horse-battery\n", mode))
		refused(t, err, "has group or world access")
	}
	for text, want := range map[string]string{
		"":                             "has 0 bytes",
		"correct\n":                    "has 7 bytes",
		strings.Repeat("correct", 999): "has 6993 bytes",
		"correct horse battery":        "without a space",
		"correct-horse\nbattery":       "one line",
		"correct-horse-b\u00e4ttery":   "printable ASCII",
	} {
		_, err := Token(write(t, text, 0o600))
		refused(t, err, want)
	}
	_, err := Token(filepath.Join(t.TempDir(), "missing"))
	refused(t, err, "no such file")
}

func TestKeyPair(t *testing.T) {
	authority, err := testcert.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := pair.Write(t.TempDir(), "server")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := KeyPair(cert, key); err != nil || len(got.Certificate) != 1 {
		t.Errorf("%d certificates, %v", len(got.Certificate), err)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = KeyPair(key, key)
	refused(t, err, "has group or world access")
	refused(t, err, "load certificate")
}
