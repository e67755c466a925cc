/// The fields of `content-state` that a policy drops if a body is too large, in the order in which they are dropped.
///
/// A field is a key, or a path of keys with dots into nested objects: `match.lineups`. Only `content-state` loses
/// fields. A start's `attributes` never lose fields, because no later push can add attributes. (R33)
public struct OversizeFields: Sendable, Equatable {
    /// The maximum number of fields of one policy: eight, because ``ShortenedRecord`` has a byte with one bit for each.
    public static let fieldsMax = 8
    /// The maximum length of a field's name, in bytes. With a comma after each, eight names need at most 512 bytes.
    public static let nameBytesMax = 63
    /// The maximum length of all names of one policy with the commas between them, in bytes.
    public static let nameListBytesMax = fieldsMax * (nameBytesMax + 1) - 1

    /// The names as the configuration writes them.
    private let names: [[UInt8]]
    /// Each of ``names``, split into its keys. For example, `match.lineups` has the keys `match` and `lineups`.
    private let fieldPaths: [[[UInt8]]]

    /// - Parameter names: as in a policy's `oversize`. The loader of the configuration has checked them, so a wrong
    ///   name traps.
    public init(_ names: [String]) {
        precondition(
            names.count <= Self.fieldsMax && names.allSatisfy(Self.isFieldName),
            "the configuration's rule was not applied"
        )
        self.names = names.map { Array($0.utf8) }
        fieldPaths = self.names.map { $0.split(separator: UInt8(ascii: ".")).map { Array($0) } }
    }

    public var isEmpty: Bool { names.isEmpty }

    /// Whether a text is a field's name: letters, digits, `_` and `-`, with single dots between keys; at most
    /// ``nameBytesMax`` bytes together.
    public static func isFieldName(_ text: String) -> Bool {
        (1...nameBytesMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { isNameByte($0) || $0 == UInt8(ascii: ".") }
            && text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
                .allSatisfy { !$0.isEmpty }
    }

    /// Whether bytes can be a list of names, as Causeway writes it into the header `dropped`: at most
    /// ``nameListBytesMax`` letters, digits, `_`, `-`, dots and commas.
    public static func isFieldNameList(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.count <= nameListBytesMax
            && bytes.allSatisfy { isNameByte($0) || $0 == UInt8(ascii: ".") || $0 == separator }
    }

    static let separator = UInt8(ascii: ",")

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }

    /// A record after ``drop(from:of:into:)``: its new length, and the fields that were dropped.
    public struct ShortenedRecord: Sendable, Equatable, BitwiseCopyable {
        /// The record's new length, in bytes.
        public let byteCount: Int
        /// One bit for each field of the policy, in the policy's order: 1 if the field was dropped.
        let droppedFieldBits: UInt8
    }

    /// Copies a command's record, and drops fields in the policy's order until the body fits. All other bytes stay as
    /// they are. A field that the record does not have is skipped.
    ///
    /// The work is bounded: each field of the policy costs at most one pass over the record.
    ///
    /// - Parameters:
    ///   - command: the command that was decoded from `record`.
    ///   - target: has room for as many bytes as `record`.
    /// - Returns: the new length and the dropped fields. The body may still be too large.
    public func drop(
        from record: UnsafeRawBufferPointer,
        of command: Command,
        into target: UnsafeMutableRawBufferPointer
    ) -> ShortenedRecord {
        precondition(target.count >= record.count, "there is no room for the record")
        target.copyMemory(from: record)
        var byteCount = record.count
        var droppedFieldBits: UInt8 = 0
        // An end may have no content state. Then there is nothing to drop.
        guard !command.contentState.isAbsent else { return ShortenedRecord(byteCount: byteCount, droppedFieldBits: 0) }
        let statePosition = Int(command.contentState.offset)
        for (index, path) in fieldPaths.enumerated() {
            guard command.bodyByteCount - (record.count - byteCount) > command.bodyBytesMax else { break }
            guard
                let newByteCount = JSONMemberRemoval.remove(
                    path,
                    from: statePosition,
                    in: UnsafeMutableRawBufferPointer(rebasing: target[..<byteCount])
                ),
                newByteCount < byteCount
            else { continue }
            byteCount = newByteCount
            droppedFieldBits |= 1 << UInt8(index)
        }
        return ShortenedRecord(byteCount: byteCount, droppedFieldBits: droppedFieldBits)
    }

    /// Returns the names of the dropped fields, separated by commas.
    public func droppedFieldNames(of record: ShortenedRecord) -> [UInt8] {
        let droppedIndices = names.indices.filter { record.droppedFieldBits & 1 << UInt8($0) != 0 }
        return Array(droppedIndices.map { names[$0] }.joined(separator: [Self.separator]))
    }
}

extension JSONWriter {
    /// Writes the names of the dropped fields as the array `dropped`. Writes nothing if there are none.
    ///
    /// - Parameter names: the names, separated by commas.
    mutating func writeDroppedFields(_ names: UnsafeRawBufferPointer) {
        guard !names.isEmpty else { return }
        key("dropped")
        append(UInt8(ascii: "["))
        var isFirst = true
        for name in names.split(separator: OversizeFields.separator) {
            if !isFirst { append(UInt8(ascii: ",")) }
            isFirst = false
            string(UnsafeRawBufferPointer(rebasing: name))
        }
        append(UInt8(ascii: "]"))
    }
}
