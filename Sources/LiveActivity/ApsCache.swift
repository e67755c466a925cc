import Glibc

/// Remembers the last `aps` dictionary that was parsed without a fault, so that the same bytes are not parsed again.
///
/// For example, a goal changes the state of all activities that follow a match. So consecutive commands in a partition
/// often differ only in their activity. Comparing bytes costs far less than parsing them.
public struct ApsCache: ~Copyable {
    /// The memory for the remembered dictionary; nil in a cache that never remembers one (``disabled``).
    private let dictionaryStart: UnsafeMutableRawPointer?
    private var dictionaryByteCount = 0
    /// The number of the `aps` dictionary in the record that was decoded last; not valid if that record has a fault.
    /// Records with the same number have the same dictionary: one that is copied from this cache keeps its number, and
    /// one that is parsed gets a new number.
    public private(set) var apsDictionaryNumber: UInt64 = 0
    /// The fields that were read from the remembered dictionary; all other fields are blank. Their positions are
    /// positions in the record from which the dictionary was parsed.
    private var rememberedFields = Command.blank
    private var rememberedKeys = ApsKeys()

    /// Allocates room for one dictionary of at most ``Limits/bodyBytesMax`` bytes. Longer dictionaries are not
    /// remembered. They are rare, because they are too large for a body to a device.
    public init() {
        dictionaryStart = .allocate(byteCount: Limits.bodyBytesMax, alignment: 16)
    }

    private init(storage dictionaryStart: UnsafeMutableRawPointer?) {
        self.dictionaryStart = dictionaryStart
    }

    deinit {
        dictionaryStart?.deallocate()
    }

    /// A cache that never remembers a dictionary, for decoding a single record.
    static var disabled: ApsCache { ApsCache(storage: nil) }

    /// Copies what was read from the remembered dictionary into `command` and `keys`, if the dictionary at `start` has
    /// the same bytes. The bytes after its closing brace are not compared, because they cannot change what the
    /// dictionary means.
    ///
    /// - Returns: the position after the dictionary; nil if it must be parsed: its bytes differ, or none is remembered.
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

    /// Forgets the remembered dictionary and increases ``apsDictionaryNumber``. The core calls this after it has
    /// dropped fields from a record (R33): records with the same number share a body, and no later record may share the
    /// shortened body.
    public mutating func forget() {
        apsDictionaryNumber &+= 1
        dictionaryByteCount = 0
    }

    /// Gives the dictionary that was just parsed a new number (``apsDictionaryNumber``), and remembers it instead of
    /// the previous one. If it has more than ``Limits/bodyBytesMax`` bytes, no dictionary is remembered.
    @inline(__always)
    mutating func remember(_ text: JSONText, _ command: borrowing Command, _ keys: ApsKeys) {
        let range = command.aps
        apsDictionaryNumber &+= 1
        // A dictionary that is too long gets a new number, but is not remembered. Forget the previous dictionary too:
        // otherwise a later record that repeats the previous dictionary would get the number of the long one.
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
