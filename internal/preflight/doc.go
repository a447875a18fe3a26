// Package preflight checks what must hold on both servers before slots can be
// kept. Reading is thin: Read fills a Server with facts. Deciding is pure: Check
// turns the facts of both into a list of findings, in the order in which a person
// would go through them.
package preflight
