import Glibc

/// The last valid dictionary of Apple's, so that the same bytes are not read again.
///
/// One state goes to every activity that follows a match. So in a topic's partition, commands that follow one another often
/// differ only in their activity. Comparing bytes costs far less than reading them.
///
/// What must hold: a dictionary's text ends where its brace closes, and its meaning depends on nothing outside. So bytes that
/// begin with a valid dictionary are that dictionary, whatever bytes follow.
public struct RepeatedAps: ~Copyable {
    /// Nil: nothing is remembered.
    private let bytes: UnsafeMutableRawPointer?
    private var count = 0
    /// The number of the dictionary that was read last, remembered or not. While the number stays the same, all records had the
    /// same dictionary. 0: none yet.
    public private(set) var dictionary: UInt64 = 0
    /// What the dictionary says, with positions in the record from which it was read. Nothing else of that record.
    private var lastCommand = Command.blank
    private var keys = ApsKeys()

    /// Remembers one dictionary. No dictionary is larger than a request's body.
    public init() {
        bytes = .allocate(byteCount: Limits.bodyBytes, alignment: 16)
    }

    private init(remembering bytes: UnsafeMutableRawPointer?) {
        self.bytes = bytes
    }

    deinit {
        bytes?.deallocate()
    }

    /// Remembers nothing and costs nothing.
    static var nothing: RepeatedAps { RepeatedAps(remembering: nil) }

    /// Returns what the dictionary at `start` says, if it equals the last one.
    /// - Returns: the position after the dictionary; nil if it must be read.
    @inline(__always)
    func copyIfRepeated(_ text: JSONText, _ start: Int, into command: inout Command, _ keys: inout ApsKeys) -> Int? {
        guard let bytes, count > 0, count <= text.count &- start, memcmp(bytes, text.base + start, count) == 0 else {
            return nil
        }
        let distance = start &- Int(lastCommand.aps.offset)
        command.takeAps(of: lastCommand, movedBy: distance)
        keys = self.keys
        keys.alertPosition &+= distance
        return start &+ count
    }

    /// Forgets the last dictionary: something else than its body was laid out under its number.
    public mutating func forget() {
        dictionary &+= 1
        count = 0
    }

    /// Remembers the dictionary that was just read.
    @inline(__always)
    mutating func remember(_ text: JSONText, _ command: borrowing Command, _ keys: ApsKeys) {
        let range = command.aps
        dictionary &+= 1
        // The dictionary remembered so far must not come back under this one's number.
        guard let bytes, range.count <= Limits.bodyBytes else {
            count = 0
            return
        }
        bytes.copyMemory(from: text.base + Int(range.offset), byteCount: Int(range.count))
        count = Int(range.count)
        lastCommand.takeAps(of: command, movedBy: 0)
        self.keys = keys
    }
}

extension Command {
    /// Takes everything that is read from Apple's dictionary, which has another position in this record.
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
        contentState = other.contentState.moved(by: distance)
        attributes = other.attributes.moved(by: distance)
        staleDate = other.staleDate
        dismissalDate = other.dismissalDate
    }
}
