package protocol

var downstreamFrames = [256]string{
	'R': "Authentication", 'K': "BackendKeyData", '2': "BindComplete", '3': "CloseComplete", 'C': "CommandComplete",
	'd': "CopyData", 'c': "CopyDone", 'G': "CopyInResponse", 'H': "CopyOutResponse", 'W': "CopyBothResponse",
	'D': "DataRow", 'I': "EmptyQueryResponse", 'E': "ErrorResponse", 'V': "FunctionCallResponse",
	'v': "NegotiateProtocolVersion", 'n': "NoData", 'N': "NoticeResponse", 'A': "NotificationResponse",
	't': "ParameterDescription", 'S': "ParameterStatus", '1': "ParseComplete", 's': "PortalSuspended",
	'Z': "ReadyForQuery", 'T': "RowDescription",
}

var upstreamFrames = [256]string{
	'B': "Bind", 'C': "Close", 'd': "CopyData", 'c': "CopyDone", 'f': "CopyFail", 'D': "Describe", 'E': "Execute",
	'H': "Flush", 'F': "FunctionCall", 'P': "Parse", 'p': "AuthenticationResponse", 'Q': "Query", 'S': "Sync",
	'X': "Terminate",
}

// DownstreamFrameName returns what the protocol calls a frame that an upstream
// sends; "" when it has none of that type.
func DownstreamFrameName(kind byte) string { return downstreamFrames[kind] }

// UpstreamFrameName returns what the protocol calls a frame that a downstream
// sends; "" when it has none of that type.
func UpstreamFrameName(kind byte) string { return upstreamFrames[kind] }
