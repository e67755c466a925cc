import Glibc

/// A copy of a contract at fixed addresses, so that a check needs no reference counting. The owner must call
/// ``deallocate()``.
public struct UnmanagedContract: BitwiseCopyable {
    let nodes: UnsafePointer<ShapeNode>
    let rawValues: UnsafeBufferPointer<EnumRawValue>
    let types: UnsafeBufferPointer<AttributesTypeShapes>
    let textStorage: UnsafeRawBufferPointer

    public init(copying contract: Contract) {
        let nodes = UnsafeMutablePointer<ShapeNode>.allocate(capacity: contract.nodes.count)
        nodes.initialize(from: contract.nodes, count: contract.nodes.count)
        self.nodes = UnsafePointer(nodes)
        rawValues = Self.copy(contract.rawValues)
        types = Self.copy(contract.types)
        let text = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, contract.textStorage.count), alignment: 1)
        text.copyBytes(from: contract.textStorage)
        textStorage = UnsafeRawBufferPointer(text)
    }

    private static func copy<Element: BitwiseCopyable>(_ elements: [Element]) -> UnsafeBufferPointer<Element> {
        let copy = UnsafeMutableBufferPointer<Element>.allocate(capacity: elements.count)
        _ = copy.initialize(from: elements)
        return UnsafeBufferPointer(copy)
    }

    public func deallocate() {
        nodes.deallocate()
        rawValues.deallocate()
        types.deallocate()
        textStorage.deallocate()
    }

    /// Checks whether a phone could decode the command. Allocates nothing.
    /// - The attributes and the content state of a start must fit the type that the start names.
    /// - The content state of an update or end must fit at least one type of the app.
    /// - An end without a content state always fits.
    ///
    /// - Parameter record: the bytes from which `command` was decoded.
    /// - Throws: the mismatch. If the command fits none of several types, the mismatch that was found furthest in the
    ///   record.
    public func check(_ command: Command, in record: UnsafeRawBufferPointer) throws(ContractMismatch) {
        try check(command, in: record, recordingIn: nil)
    }

    /// Checks the command as ``check(_:in:)`` does, and records where its state has values.
    ///
    /// - Parameter template: gets the values' places instead of its former ones; nil if the places are not needed.
    func check(
        _ command: Command,
        in record: UnsafeRawBufferPointer,
        recordingIn template: UnsafeMutablePointer<StateTemplate>?
    ) throws(ContractMismatch) {
        // The command was decoded from these bytes, so ``JSONText`` does not refuse them.
        guard let text = try? JSONText(record) else { return }
        let checker = ContractChecker(contract: self, text: text, template: template)
        let isStart = command.event == .start
        guard isStart || !command.contentState.isAbsent else { return }
        var bestMismatch: ContractMismatch?
        for type in types {
            if isStart, !isNamed(type, by: command.attributesType, of: record) { continue }
            template?.pointee.valuePlaceCount = 0
            do throws(ContractMismatch) {
                if isStart, !command.attributes.isAbsent {
                    _ = try checker.checkValue(Int(type.attributesNodeIndex), Int(command.attributes.offset))
                }
                if !command.contentState.isAbsent {
                    _ = try checker.checkValue(Int(type.contentStateNodeIndex), Int(command.contentState.offset))
                }
                return
            } catch {
                if error.fittingPartEnd > bestMismatch?.fittingPartEnd ?? 0 { bestMismatch = error }
            }
        }
        throw bestMismatch ?? .unknownType(at: Int(command.attributesType.range.offset) &- 1)
    }

    /// The beginning of ``textStorage``, from which the offsets of names count.
    @inline(__always)
    var textStart: UnsafeRawPointer { textStorage.baseAddress.unsafelyUnwrapped }

    @inline(__always)
    func name(of nodeIndex: Int) -> UnsafeRawBufferPointer {
        text(nodes[nodeIndex].nameOffset, nodes[nodeIndex].nameByteCount)
    }

    @inline(__always)
    func text(_ offset: UInt32, _ count: UInt32) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: textStorage[Int(offset)..<Int(offset) &+ Int(count)])
    }

    private func isNamed(_ type: AttributesTypeShapes, by name: TextRange, of record: UnsafeRawBufferPointer) -> Bool {
        let declaredName = text(type.nameOffset, type.nameByteCount)
        let givenName = name.range.bytes(in: record)
        return name.isEscaped
            ? haveEqualBytes(declaredName, unescaping: givenName) : haveEqualBytes(declaredName, givenName)
    }
}

@inline(__always)
func haveEqualBytes(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    guard left.count == right.count else { return false }
    guard let first = left.baseAddress, let second = right.baseAddress else { return left.isEmpty }
    return memcmp(first, second, left.count) == 0
}

/// Whether a JSON string, after its escapes are decoded, has the bytes `plain`.
func haveEqualBytes(_ plain: UnsafeRawBufferPointer, unescaping escaped: UnsafeRawBufferPointer) -> Bool {
    var bytes = UnescapedBytes(escaped)
    for byte in plain where bytes.next() != byte { return false }
    return bytes.next() == nil
}

extension Command {
    /// Returns a digest of all parts of the command that a contract checks. A lane remembers the digests of states that
    /// fit, and does not check these states again.
    ///
    /// Two different values have equal digests with a probability of 2⁻⁶⁴. A producer that constructs such values harms
    /// only its own app: a state passes the check, although the app's phones drop it.
    public func digestOfCheckedParts(in record: UnsafeRawBufferPointer) -> UInt64 {
        var digest = Digest()
        digest.add(contentState.bytes(in: record))
        if event == .start {
            digest.add(attributesType.range.bytes(in: record))
            digest.add(attributes.bytes(in: record))
        }
        return digest.value
    }
}
