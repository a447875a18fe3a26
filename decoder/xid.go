package decoder

// xidPrecedesOrEquals compares two normal transaction ids modulo 2^32, as
// TransactionIdPrecedesOrEquals (transam.c) does.
func xidPrecedesOrEquals(a, b uint32) bool { return int32(a-b) <= 0 }
