/// The readers of bytes from outside that are fuzzed. Each target has rules that must hold for every input.
enum FuzzTarget: String, CaseIterable, Sendable {
    case frames, headers
    /// The bodies of APNs' responses. The raw value names the target in the command line and its folder in `Cases`.
    case responses = "answers"
    case commands, registrations, replies

    /// Returns how the input breaks a rule of the target; nil if it breaks none. A trap, or an access that
    /// AddressSanitizer reports, ends the process.
    func violation(_ input: UnsafeRawBufferPointer) -> String? {
        switch self {
        case .frames: frameViolation(input)
        case .headers: headerViolation(input)
        case .responses: responseViolation(input)
        case .commands: commandViolation(input)
        case .registrations: registrationViolation(input)
        case .replies: replyViolation(input)
        }
    }
}

/// Copies the bytes into an allocation of their size, so that AddressSanitizer finds a read beyond their end.
func withCopy<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    defer { copy.deallocate() }
    copy.copyMemory(from: bytes)
    return body(UnsafeRawBufferPointer(copy))
}

/// Passes the bytes in pieces of `pieceBytes`, each in its own allocation, until the body returns false.
func forEachPiece(
    of bytes: UnsafeRawBufferPointer,
    _ pieceBytes: Int,
    _ body: (UnsafeRawBufferPointer) -> Bool
) {
    var remainder = bytes
    while !remainder.isEmpty {
        let count = min(pieceBytes, remainder.count)
        guard withCopy(UnsafeRawBufferPointer(rebasing: remainder[..<count]), body) else { return }
        remainder = UnsafeRawBufferPointer(rebasing: remainder[count...])
    }
}
