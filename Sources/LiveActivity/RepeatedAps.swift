import Glibc

/// Apple's dictionary as it was last found to be valid, so that the same bytes need not be read again.
///
/// One state goes to each activity that follows a match: in a topic's partition, commands come one behind the other that differ in their
/// activity alone. Comparing is a small part of reading.
///
/// What must hold: a dictionary's text ends where its brace is closed, and what it says depends on nothing outside of it. So bytes that begin
/// with a valid dictionary's are that dictionary, whatever comes behind.
public struct RepeatedAps: ~Copyable {
    /// Nil, and nothing is remembered.
    private let bytes: UnsafeMutableRawPointer?
    private var count = 0
    /// Numbers the dictionary that was read last, remembered or not: as long as it stays the same, every record had the same one. 0: none yet.
    public private(set) var dictionary: UInt64 = 0
    /// What the dictionary says, by places in the record that it was read from; nothing else of that record.
    private var said = Command.blank
    private var keys = ApsKeys()

    /// Remembers one dictionary; none that is larger than a request's body may be.
    public init() {
        bytes = .allocate(byteCount: Limits.bodyBytes, alignment: 16)
    }

    private init(remembering bytes: UnsafeMutableRawPointer?) {
        self.bytes = bytes
    }

    deinit {
        bytes?.deallocate()
    }

    /// Remembers nothing, and costs nothing.
    static var nothing: RepeatedAps { RepeatedAps(remembering: nil) }

    /// Tells what the dictionary at `start` says, if it is the one that was read last.
    /// - Returns: the position after it; nil if it must be read.
    @inline(__always)
    func recall(_ text: JSONText, _ start: Int, into command: inout Command, _ keys: inout ApsKeys) -> Int? {
        guard let bytes, count > 0, count <= text.count &- start, memcmp(bytes, text.base + start, count) == 0 else {
            return nil
        }
        let distance = start &- Int(said.aps.offset)
        command.takeAps(of: said, movedBy: distance)
        keys = self.keys
        keys.alertPosition &+= distance
        return start &+ count
    }

    /// Remembers the dictionary that has just been read.
    @inline(__always)
    mutating func remember(_ text: JSONText, _ command: borrowing Command, _ keys: ApsKeys) {
        let range = command.aps
        dictionary &+= 1
        guard let bytes, range.count <= Limits.bodyBytes else { return }
        bytes.copyMemory(from: text.base + Int(range.offset), byteCount: Int(range.count))
        count = Int(range.count)
        said.takeAps(of: command, movedBy: 0)
        self.keys = keys
    }
}

extension Command {
    /// Takes over whatever is read from Apple's dictionary, which has another place in this record.
    @inline(__always)
    fileprivate mutating func takeAps(of other: borrowing Command, movedBy distance: Int) {
        event = other.event
        version.timestamp = other.version.timestamp
        attributesType = TextRange(
            range: other.attributesType.range.moved(by: distance),
            isEscaped: other.attributesType.isEscaped
        )
        aps = other.aps.moved(by: distance)
        timestampDigits = other.timestampDigits.moved(by: distance)
        alert = other.alert.moved(by: distance)
        staleDate = other.staleDate
        dismissalDate = other.dismissalDate
    }
}
