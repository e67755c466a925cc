/// The id of a broadcast channel: base64 text, byte for byte as APNs or a producer gave it.
///
/// Apple promises no length. All ids seen so far have 24 characters.
public struct ChannelIdentifier: Sendable, BitwiseCopyable {
    public static let bytesMax = 64

    private var characters: InlineArray<64, UInt8> = .init(repeating: 0)
    private var byteCount: UInt8 = 0

    public var count: Int { Int(byteCount) }

    /// Nil if the bytes are not padded base64 text (RFC 4648, section 4) of 4 to ``bytesMax`` bytes.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        guard ChannelIdentifier.isValid(bytes) else { return nil }
        for index in bytes.indices { characters[index] = bytes[index] }
        byteCount = UInt8(bytes.count)
    }

    public init?(_ text: String) {
        var text = text
        guard let identifier = text.withUTF8({ ChannelIdentifier(UnsafeRawBufferPointer($0)) }) else { return nil }
        self = identifier
    }

    public func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withUnsafeBytes(of: characters) { bytes throws(Failure) in
            try body(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        }
    }

    public static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !bytes.isEmpty, bytes.count <= bytesMax, bytes.count.isMultiple(of: 4) else { return false }
        var digitCount = bytes.count
        while digitCount > bytes.count - 2, bytes[digitCount - 1] == UInt8(ascii: "=") { digitCount -= 1 }
        return bytes[..<digitCount].allSatisfy(isBase64Digit)
    }

    private static func isBase64Digit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"):
            true
        default: false
        }
    }
}

extension ChannelIdentifier: Hashable {
    public static func == (left: ChannelIdentifier, right: ChannelIdentifier) -> Bool {
        guard left.byteCount == right.byteCount else { return false }
        return (0..<left.count).allSatisfy { left.characters[$0] == right.characters[$0] }
    }

    public func hash(into hasher: inout Hasher) {
        withBytes { hasher.combine(bytes: $0) }
    }
}

extension ChannelIdentifier: CustomStringConvertible {
    /// The id's text. It may be logged: only a sender with the app's key can send to the channel.
    public var description: String {
        withBytes { String(decoding: $0, as: UTF8.self) }
    }
}
