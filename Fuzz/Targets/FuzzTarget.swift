/// The readers of bytes from outside. Each has a law that holds for every input.
enum FuzzTarget: String, CaseIterable, Sendable {
    case frames, headers, answers, commands, registrations, replies

    /// Says how the input breaks the law; nil if the law holds. A trap, or an access that AddressSanitizer reports, ends the process.
    func violation(_ input: UnsafeRawBufferPointer) -> String? {
        switch self {
        case .frames: frameViolation(input)
        case .headers: headerViolation(input)
        case .answers: answerViolation(input)
        case .commands: commandViolation(input)
        case .registrations: registrationViolation(input)
        case .replies: replyViolation(input)
        }
    }
}

/// Bytes in memory of their own, so that AddressSanitizer finds a read beyond them.
func withCopy<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
    defer { copy.deallocate() }
    copy.copyMemory(from: bytes)
    return body(UnsafeRawBufferPointer(copy))
}

/// The bytes in pieces of `pieceBytes`, each in memory of its own, until the body returns false.
func forEachPiece(
    of bytes: UnsafeRawBufferPointer,
    _ pieceBytes: Int,
    _ body: (UnsafeRawBufferPointer) -> Bool
) {
    var rest = bytes
    while !rest.isEmpty {
        let count = min(pieceBytes, rest.count)
        guard withCopy(UnsafeRawBufferPointer(rebasing: rest[..<count]), body) else { return }
        rest = UnsafeRawBufferPointer(rebasing: rest[count...])
    }
}
