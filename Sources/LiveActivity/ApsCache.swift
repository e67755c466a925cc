import Glibc

/// Remembers the last `aps` dictionary that was parsed without a fault, so that the same bytes are not parsed again.
///
/// For example, a goal changes the state of all activities that follow a match. So consecutive commands in a
/// partition often differ only in their activity. Comparing bytes costs far less than parsing them.
///
/// Only the dictionary's own bytes are compared. The bytes after its closing brace cannot change what the dictionary
/// means.
public struct ApsCache: ~Copyable {
    /// Nil in a cache that never remembers a dictionary (``disabled``).
    private let dictionaryStart: UnsafeMutableRawPointer?
    private var dictionaryByteCount = 0
    /// The number of the dictionary in the last record that was decoded without a fault. Records with the same number
    /// have the same dictionary. A dictionary that is parsed without a fault gets a new number, even if it is not
    /// remembered. A dictionary that is copied from this cache keeps its number. ``forget()`` also makes a new number.
    public private(set) var apsDictionaryNumber: UInt64 = 0
    /// The fields that come from the remembered dictionary. Their positions are those in the record from which
    /// the dictionary was parsed. All other fields are blank.
    private var rememberedFields = Command.blank
    private var rememberedKeys = ApsKeys()

    /// Allocates room for one dictionary. A dictionary longer than ``Limits/bodyBytesMax`` is not remembered: it is too
    /// large for a body to a device, so it is rare.
    public init() {
        dictionaryStart = .allocate(byteCount: Limits.bodyBytesMax, alignment: 16)
    }

    private init(storage dictionaryStart: UnsafeMutableRawPointer?) {
        self.dictionaryStart = dictionaryStart
    }

    deinit {
        dictionaryStart?.deallocate()
    }

    /// A value that never remembers a dictionary, for decoding a single record.
    static var disabled: ApsCache { ApsCache(storage: nil) }

    /// Copies the fields of the last dictionary into `command`, if the dictionary at `start` has the same
    /// bytes.
    /// - Returns: the position after the dictionary; nil if the dictionary must be parsed.
    @inline(__always)
    func copyIfRepeated(_ text: JSONText, _ start: Int, into command: inout Command, _ keys: inout ApsKeys) -> Int? {
        guard let dictionaryStart, dictionaryByteCount > 0, dictionaryByteCount <= text.count &- start,
            memcmp(dictionaryStart, text.base + start, dictionaryByteCount) == 0
        else {
            return nil
        }
        let distance = start &- Int(rememberedFields.aps.offset)
        command.copyAps(of: rememberedFields, movedBy: distance)
        keys = rememberedKeys
        keys.alertPosition &+= distance
        return start &+ dictionaryByteCount
    }

    /// Forgets the last dictionary and increases ``apsDictionaryNumber``. The core calls this after it has dropped
    /// fields from a record (R33). The body of this record lacks the dropped fields. Records with the same number share
    /// a body, so no later record may get the number of this record.
    public mutating func forget() {
        apsDictionaryNumber &+= 1
        dictionaryByteCount = 0
    }

    /// Remembers the dictionary that was just parsed, if it has at most ``Limits/bodyBytesMax`` bytes.
    @inline(__always)
    mutating func remember(_ text: JSONText, _ command: borrowing Command, _ keys: ApsKeys) {
        let range = command.aps
        apsDictionaryNumber &+= 1
        // A dictionary that is too long is not remembered, but it has just got a new number. So the cache also forgets
        // the previous dictionary: a record that repeats the previous dictionary would get this new number too.
        guard let dictionaryStart, range.count <= Limits.bodyBytesMax else {
            dictionaryByteCount = 0
            return
        }
        dictionaryStart.copyMemory(from: text.base + Int(range.offset), byteCount: Int(range.count))
        dictionaryByteCount = Int(range.count)
        rememberedFields.copyAps(of: command, movedBy: 0)
        rememberedKeys = keys
    }
}

extension Command {
    /// Copies all fields that come from Apple's dictionary, and moves their positions by `distance`.
    @inline(__always)
    fileprivate mutating func copyAps(of source: borrowing Command, movedBy distance: Int) {
        event = source.event
        version.timestamp = source.version.timestamp
        attributesType = TextRange(
            range: source.attributesType.range.moved(by: distance),
            isEscaped: source.attributesType.isEscaped
        )
        aps = source.aps.moved(by: distance)
        timestampDigits = source.timestampDigits.moved(by: distance)
        alert = source.alert.moved(by: distance)
        contentState = source.contentState.moved(by: distance)
        attributes = source.attributes.moved(by: distance)
        staleDateSeconds = source.staleDateSeconds
        dismissalDateSeconds = source.dismissalDateSeconds
    }
}
