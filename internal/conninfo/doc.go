// Package conninfo keeps what is secret in a libpq conninfo from being seen. A
// password has no place in a log, an error, a status document or the list of
// processes, and many libraries on the way there print what they were given.
//
// Two things help. Redact knows the shape of a conninfo and is for a text that
// may hold one. A Redactor knows the secrets themselves, wherever they came from
// (a password file, the environment), and is for streams of any shape.
//
// Beside that SetDefaults gives the sessions of a configuration what they need,
// whatever the server, the database and the role have for them.
package conninfo
