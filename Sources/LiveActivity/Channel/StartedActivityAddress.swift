/// How pushes reach the activity that a start begins: by `input-push-token` or `input-push-channel` in Apple's
/// dictionary.
public enum StartedActivityAddress: Sendable, BitwiseCopyable {
    /// iOS gives the activity an update token, which its app registers.
    case token
    /// The activity begins on a broadcast channel and gets no token.
    case channel(ChannelIdentifier)

    private static let inputPushToken: StaticString = #","input-push-token":1}"#
    private static let inputPushChannelOpening: StaticString = #","input-push-channel":""#
    private static let inputPushChannelEnd: StaticString = #""}"#

    /// The number of bytes that ``writeWithAddress(_:to:)`` adds to the dictionary.
    public var byteCount: Int {
        switch self {
        case .token: Self.inputPushToken.utf8CodeUnitCount
        case .channel(let identifier):
            Self.inputPushChannelOpening.utf8CodeUnitCount + identifier.count
                + Self.inputPushChannelEnd.utf8CodeUnitCount
        }
    }

    /// Writes a start's dictionary: what ``copyWithoutAddress(_:into:)`` left of it (`dictionary`), this address, and
    /// the closing brace.
    func writeWithAddress(_ dictionary: UnsafeRawBufferPointer, to writer: inout JSONWriter) {
        writer.raw(dictionary)
        switch self {
        case .token: writer.raw(Self.inputPushToken.bytes)
        case .channel(let identifier):
            writer.raw(Self.inputPushChannelOpening.bytes)
            identifier.withBytes { writer.raw($0) }
            writer.raw(Self.inputPushChannelEnd.bytes)
        }
    }

    /// Copies Apple's dictionary of a start without `input-push-token` and without the closing brace.
    /// ``writeWithAddress(_:to:)`` then adds an address and the brace.
    ///
    /// - Parameters:
    ///   - dictionary: a valid dictionary, including its braces.
    ///   - target: has room for as many bytes as `dictionary` has.
    /// - Returns: the number of bytes written; nil if the dictionary itself names a channel.
    public static func copyWithoutAddress(
        _ dictionary: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int? {
        precondition(target.count >= dictionary.count, "there is no room for the dictionary")
        do throws(Fault) {
            let text = try JSONText(dictionary)
            var members = try JSONMembers(text, at: 0, of: .aps, unknownKeys: .passedOn)
            var writtenByteCount = 0
            while let field = try members.next(in: text, Field.apsField) {
                guard field != .inputPushChannel else { return nil }
                let start = members.keyPosition
                members.position = try text.skipValue(members.position, depth: 1, field)
                guard field != .inputPushToken else { continue }
                target[writtenByteCount] = writtenByteCount == 0 ? UInt8(ascii: "{") : UInt8(ascii: ",")
                let member = UnsafeRawBufferPointer(rebasing: dictionary[start..<members.position])
                UnsafeMutableRawBufferPointer(rebasing: target[(writtenByteCount + 1)...]).copyMemory(from: member)
                writtenByteCount += 1 + member.count
            }
            return writtenByteCount == 0 ? nil : writtenByteCount
        } catch {
            return nil
        }
    }
}

extension StaticString {
    fileprivate var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount) }
}
