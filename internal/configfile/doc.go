// Package configfile reads settings from a YAML file and says where in it each
// one stands. It knows neither which settings there are nor what they mean: the
// caller does, and can name the line when a value is no good.
//
// A file is one mapping of names to values: a scalar, or a list of scalars.
//
//	upstream: host=primary user=slotferry dbname=postgres
//	listen:
//	  - 127.0.0.1:6432
//	refuse-tls: true
//
// A scalar is taken as it is written: 010 is "010", and off is "off". Everything
// else that YAML can say is refused, and every problem of a file is reported, not
// the first alone.
package configfile
