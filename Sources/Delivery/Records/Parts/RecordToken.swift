import LiveActivity

/// The token of a record: of a registration, the token that it registers; of a command, the token that it brought or
/// that Redis named for it. A tombstone has no token, and only the time has a meaning.
///
/// A command's token is freed when the command has its outcome, unless a later step needs it: retiring a dead token,
/// registering the token again, or reporting to the timetable.
struct RecordToken: BitwiseCopyable {
    /// The token's digits; none until the token is known.
    var block = Arena.Block.none
    /// Whether the admission must also register the token in Redis: this command, or one that it replaced, brought the
    /// token.
    var mustBeRegistered = false
    var environment: APNsEnvironment = .production
    var byteCount: UInt32 = 0
    /// When the token was registered, or unregistered by a tombstone, UNIX milliseconds.
    var registeredAtWallMilliseconds: Int64 = 0

    @inline(__always)
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: block.base, count: Int(byteCount)) }
}
