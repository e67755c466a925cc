import LiveActivity
import Redis

/// Collects checkpoints of one audience's ranges, so that one Redis command records them all (R29). Most checkpoints of
/// a lane's rounds are due in the same iteration, so a batch often has several.
///
/// The memory is allocated once.
struct CheckpointBatch: ~Copyable {
    /// The maximum length of all arguments together, in bytes. Usually the batch reaches `callsMax` first, because most
    /// checkpoints have about a hundred bytes.
    private static let argumentBytesMax = 16_384
    /// The bytes of one checkpoint in the command, except its text: the range (4), the claim (8), and what RESP adds to
    /// each of the three arguments.
    private static let byteCountWithoutText = 4 + 8 + 3 * RedisCommandWriter.argumentOverheadBytes

    private let callsMax: Int
    private(set) var count = 0
    private let key = UnsafeMutableRawBufferPointer.allocate(byteCount: AudienceStoreKey.bytesMax, alignment: 1)
    private var keyByteCount = 0
    private let arguments = UnsafeMutableRawBufferPointer.allocate(byteCount: argumentBytesMax, alignment: 1)
    private var argumentByteCount = 0

    init(callsMax: Int) { self.callsMax = callsMax }

    deinit {
        key.deallocate()
        arguments.deallocate()
    }

    var isFull: Bool { count == callsMax }

    /// Whether a checkpoint with this text, of this audience, may be added. If not, the batch has no room, or is for
    /// another audience. Then the caller must first write and empty it. An empty batch accepts any checkpoint.
    func hasRoom(for text: UnsafeRawBufferPointer, of audienceKey: UnsafeRawBufferPointer) -> Bool {
        count == 0
            || count < callsMax && argumentByteCount + Self.byteCountWithoutText + text.count <= Self.argumentBytesMax
                && UnsafeRawBufferPointer(rebasing: key[..<keyByteCount]).elementsEqual(audienceKey)
    }

    mutating func append(
        _ audienceKey: UnsafeRawBufferPointer,
        _ range: SegmentRange,
        claim: UInt64,
        text: UnsafeRawBufferPointer
    ) {
        if count == 0 {
            key.copyMemory(from: audienceKey)
            keyByteCount = audienceKey.count
        }
        var writer = RedisCommandWriter(arguments, continuingAt: argumentByteCount)
        writer.writeCheckpointArguments(range, claim: claim, text: text)
        argumentByteCount = writer.count
        count += 1
    }

    /// The maximum length of the Redis command in bytes, without the part that names the script.
    var commandBytesMax: Int {
        keyByteCount + argumentByteCount + RedisCommandWriter.operationNameBytesMax
            + 4 * RedisCommandWriter.argumentOverheadBytes
    }

    /// The number of the Redis command's arguments, without the part that names the script.
    var argumentCount: Int { 3 + 3 * count }

    func write(to writer: inout RedisCommandWriter) {
        writer.writeArgument(letter: UInt8(ascii: "1"))
        writer.writeArgument(UnsafeRawBufferPointer(rebasing: key[..<keyByteCount]))
        writer.writeArgument(operation: "checkpoint")
        writer.writeVerbatim(UnsafeRawBufferPointer(rebasing: arguments[..<argumentByteCount]))
    }

    mutating func removeAll() {
        count = 0
        argumentByteCount = 0
    }
}
