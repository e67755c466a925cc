import Numbers

/// The reason why no phone could decode a command, and the place of the wrong value.
public struct ContractMismatch: Error, Equatable, BitwiseCopyable, Sendable {
    enum Problem: UInt8, Sendable {
        case missing, wrongType, outOfRange, notOneOfTheCases, wrongForm, boundsOutOfOrder, unknownType
    }

    var problem: Problem
    /// The index in ``Contract/nodes`` of the declaration that the value does not fit. Not used for `unknownType`.
    var nodeIndex: Int
    /// The position in the record: the start of the wrong value, or of the object that lacks a field.
    public var offset: Int
    /// The position up to which the record fits its shape. For a wrong value, this is the value's position. For an
    /// object that lacks a field, it is the end of the object's last known field. If the record fits none of several
    /// types, the mismatch with the highest position is reported.
    var fittingPartEnd: Int

    static func unknownType(at offset: Int) -> ContractMismatch {
        ContractMismatch(problem: .unknownType, nodeIndex: 0, offset: offset, fittingPartEnd: offset)
    }
}

/// Composes messages for logs and dead letters. Allocates memory.
extension UnmanagedContract {
    /// The maximum number of raw values, or of types' names, that a message lists.
    private static let listedWordsMax = 8
    /// The longest value that is shown, in bytes.
    private static let shownValueBytesMax = 40

    /// Returns a message with the path of the value, what was found, what is expected, and the position:
    ///
    ///     aps.content-state.home.score: "2" must be int (at byte 118)
    ///
    /// A value is shown if it is short and cannot be a token.
    ///
    /// - Parameter showsValue: if false, the message has only the kind of the value, because a log should not have
    ///   personal data. But the name of an unknown type is always shown.
    public func message(
        _ mismatch: ContractMismatch,
        _ command: Command,
        in record: UnsafeRawBufferPointer,
        showsValue: Bool = true
    ) -> String {
        guard let text = try? JSONText(record) else { return "" }
        let location = "(at byte \(mismatch.offset))"
        if mismatch.problem == .unknownType {
            let valueText = describeValue(text, mismatch.offset, showsValue: true)
            return "aps.attributes-type: \(valueText) must be one of the app's types: \(typeList) \(location)"
        }
        let path = findPath(to: mismatch.offset, of: command, in: text)
        let requirement = describeRequirement(nodes[mismatch.nodeIndex])
        guard mismatch.problem != .missing else {
            let name = String(decoding: name(of: mismatch.nodeIndex), as: UTF8.self)
            return "\(path).\(name): missing, must be \(requirement) \(location)"
        }
        let valueText = describeValue(text, mismatch.offset, showsValue: showsValue)
        let reason =
            switch mismatch.problem {
            case .outOfRange: "does not fit \(requirement)"
            case .boundsOutOfOrder: "must be \(requirement), and its bounds are not in order"
            default: "must be \(requirement)"
            }
        return "\(path): \(valueText) \(reason) \(location)"
    }

    private var typeList: String {
        var names: [String] = []
        for type in types {
            let name = String(decoding: text(type.nameOffset, type.nameByteCount), as: UTF8.self)
            if !names.contains(name) { names.append(name) }
        }
        return joinList(names)
    }

    private func joinList(_ words: [String]) -> String {
        words.prefix(Self.listedWordsMax).joined(separator: ", ") + (words.count > Self.listedWordsMax ? ", …" : "")
    }

    /// Returns what a value must be, in words that follow "must be" in a message.
    private func describeRequirement(_ shape: ShapeNode) -> String {
        let range = Int(shape.firstChild)..<Int(shape.firstChild) + Int(shape.childCount)
        return switch shape.kind {
        case .stringEnum:
            "one of "
                + joinList(rawValues[range].map { "\"\(String(decoding: text($0.offset, $0.count), as: UTF8.self))\"" })
        case .numberEnum: "one of " + joinList(rawValues[range].map { "\($0.number)" })
        case .date: "date, a number of seconds since 2001"
        case .dateRange: "dateRange, an array of two numbers of seconds since 2001"
        case .data: "data, a text in base64"
        case .array: "array of \(nodes[Int(shape.firstChild)].kind.name)"
        case .dictionary: "dictionary of \(nodes[Int(shape.firstChild)].kind.name)"
        default: "\(shape.kind.name)"
        }
    }

    /// Returns the value at `position` if a message may show it, otherwise its kind, such as "a string of 60 bytes".
    private func describeValue(_ text: JSONText, _ position: Int, showsValue: Bool) -> String {
        switch text.peek(position) {
        case UInt8(ascii: "{"): return "an object"
        case UInt8(ascii: "["): return "an array"
        case UInt8(ascii: "n"): return "null"
        case UInt8(ascii: "t"), UInt8(ascii: "f"):
            return showsValue ? (text.peek(position) == UInt8(ascii: "t") ? "true" : "false") : "a boolean"
        case let firstByte:
            let isString = firstByte == UInt8(ascii: "\"")
            let kind = isString ? "a string" : "a number"
            guard showsValue, let end = try? text.skipValue(position, depth: 0, .contentState) else { return kind }
            let value = text.bytes(ByteRange(from: position, to: end))
            return mayBeShown(value) ? String(decoding: value, as: UTF8.self) : "\(kind) of \(value.count) bytes"
        }
    }

    /// Whether a text may be shown: it is short, has no control characters, and has fewer than
    /// ``FieldPath/suspectedTokenDigitsMin`` hexadecimal digits in a row.
    private func mayBeShown(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count <= Self.shownValueBytesMax else { return false }
        var consecutiveDigitCount = 0
        for byte in bytes {
            consecutiveDigitCount = Hexadecimal.digitValue(byte) == nil ? 0 : consecutiveDigitCount + 1
            guard byte >= 0x20, byte != 0x7F else { return false }
            guard consecutiveDigitCount < FieldPath.suspectedTokenDigitsMin else { return false }
        }
        return true
    }

    /// Returns the path from Apple's dictionary to the value at `offset`: keys and indexes, such as
    /// `aps.content-state.goals[2]`.
    private func findPath(to offset: Int, of command: Command, in text: JSONText) -> String {
        let state = command.contentState
        let isInState = !state.isAbsent && offset >= Int(state.offset) && offset < state.end
        var path = isInState ? "aps.content-state" : "aps.attributes"
        var position = Int((isInState ? state : command.attributes).offset)
        while position != offset, let (name, childPosition) = findChild(from: position, towards: offset, in: text) {
            path += name
            position = childPosition
        }
        return path
    }

    /// Finds the member or element that contains `offset`, in the object or array at `start`. Returns its name in a
    /// path, such as `.goals` or `[2]`, and the position of its value.
    private func findChild(from start: Int, towards offset: Int, in text: JSONText) -> (name: String, position: Int)? {
        let isObject = text.peek(start) == UInt8(ascii: "{")
        guard isObject || text.peek(start) == UInt8(ascii: "[") else { return nil }
        var position = start + 1
        var index = 0
        while position <= offset {
            position = text.skipWhitespace(position)
            var name = "[\(index)]"
            if isObject {
                guard let key = try? text.readString(position, .contentState),
                    let valuePosition = try? text.skipColon(key.nextPosition, .contentState)
                else { return nil }
                let bytes = text.bytes(key.range)
                let isShown = mayBeShown(bytes)
                name = isShown ? ".\(String(decoding: bytes, as: UTF8.self))" : ".(key of \(bytes.count) bytes)"
                position = valuePosition
            }
            guard let end = try? text.skipValue(position, depth: 0, .contentState) else { return nil }
            if offset < end { return (name, position) }
            position = text.skipWhitespace(end) + 1
            index += 1
        }
        return nil
    }
}
