package conninfo

import (
	"strings"
	"testing"
)

// FuzzConninfo checks that no connection string makes anything fail, and that
// neither an error about it nor its redacted text shows a secret of it.
func FuzzConninfo(f *testing.F) {
	for _, s := range secretConninfos {
		f.Add(s.conninfo)
	}
	f.Add("host=db1,db2 port=1,2 user=repl dbname=postgres application_name=x options='-c work_mem=1MB'")
	f.Add("postgres://u@a/d?gssencmode=disable&connect_timeout=3")
	f.Add("postgresql://:%68unter2@[::1]:5432,db2/postgres?password=hunter3&sslmode=bad")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			return
		}
		redacted, err := NewRedactor(text).Redact(text), Check(text)
		_ = Addresses(text)
		for _, span := range Secrets(text) {
			secret := text[span.Start:span.End]
			// What is short is not looked for elsewhere, and a mask may look like a part
			// of a secret that has one in it.
			if len(secret) < minSecret || strings.Contains(secret, "*") {
				continue
			}
			if strings.Contains(redacted, secret) {
				t.Errorf("Redact(%q) = %q shows %q", text, redacted, secret)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("Check(%q) says %v, which shows %q", text, err, secret)
			}
		}
	})
}
