// Package inspect reads captures and packet captures and prints the messages in
// them, or what they come to. It joins the readers of files to package trace, and
// keeps an account of every byte of the input.
package inspect
