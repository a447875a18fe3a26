package protocol

// Types of the frames a relay has to know. All others it forwards unread.
const (
	FrameCopyData        = 'd' // both directions
	FrameCopyDone        = 'c' // both directions
	FrameCopyFail        = 'f' // from downstream
	FrameQuery           = 'Q' // from downstream
	FrameSync            = 'S' // from downstream; ParameterStatus from upstream
	FrameFunctionCall    = 'F' // from downstream
	FrameTerminate       = 'X' // from downstream
	FrameCopyBoth        = 'W' // from upstream
	FrameCommandComplete = 'C' // from upstream
	FrameReadyForQuery   = 'Z' // from upstream
	FrameRowDescription  = 'T' // from upstream
	FrameDataRow         = 'D' // from upstream
	FrameErrorResponse   = 'E' // from upstream
	FrameNotice          = 'N' // from upstream
	FrameAuthentication  = 'R' // from upstream
	FramePassword        = 'p' // from downstream: any answer to an Authentication message
	FrameBackendKeyData  = 'K' // from upstream
	FrameNegotiate       = 'v' // from upstream
)

// FrameHeaderLen is the length of a frame's header: type and length field.
const FrameHeaderLen = 5

// MaxFrame is the size cap of a frame in bytes, type byte included. PostgreSQL
// builds each message in one StringInfo, which is never larger (MaxAllocSize,
// memutils.h); a longer length field means that the bytes are not frames.
const MaxFrame = 0x3FFFFFFF

// FrameHeader opens every message but those of the startup.
//
//	Byte1 Type | Int32 Length
type FrameHeader struct {
	Type   byte
	Length uint32 // of the message, itself included and the type byte not
}

// Decode reads a header. src may go on behind it. A length no server would
// send is ErrFrameLength.
func (h *FrameHeader) Decode(src []byte) error {
	c := cursor{b: src[:min(len(src), FrameHeaderLen)]}
	h.Type = c.u8()
	h.Length = c.u32()
	if c.err == nil && (h.Length < 4 || h.Length > MaxFrame-1) {
		c.off = 1
		c.fail(ErrFrameLength)
	}
	return c.done("frame header")
}

// Size returns the length of the whole frame, type byte included.
func (h *FrameHeader) Size() int { return 1 + int(h.Length) }
