/// The place of a field's value in a state, counted from the state's first byte. `nodeIndex` is the index of the
/// ``ShapeNode`` that declares the field.
struct ValuePlace: BitwiseCopyable {
    var nodeIndex: UInt32
    var start: UInt32
    var end: UInt32
}

/// A state that fits its contract, and the places of its values. Another state has the same template if all bytes
/// outside of these places are equal. For example, `{"goals":1}` and `{"goals":25}` have the same template.
struct StateTemplate: BitwiseCopyable {
    /// The room in ``valuePlaces``. If a state has more values, the further ones have no place: they must be equal in
    /// every state with this template.
    static let valuePlacesMax = 128

    var appIndex: UInt16 = 0
    /// The app's contract, whose nodes (``ShapeNode``) declare the ``valuePlaces``; nil if the template has no state.
    var contract: UnmanagedContract?
    var stateByteCount = 0
    /// Where the state begins in the record from which the template is made. Places in the record, less this position,
    /// are places in the state. Used only while the template is made.
    var stateOffsetInRecord = 0
    /// The number of ``valuePlaces``, which are in ascending order and do not overlap.
    var valuePlaceCount = 0
    /// The state's bytes. Room for eight bytes more than ``Limits/bodyBytesMax`` is allocated, so that eight bytes can
    /// be read from any position.
    let bytes: UnsafeMutableRawPointer
    let valuePlaces: UnsafeMutablePointer<ValuePlace>

    init() {
        bytes = .allocate(byteCount: Limits.bodyBytesMax &+ 8, alignment: 16)
        bytes.initializeMemory(as: UInt8.self, repeating: 0, count: Limits.bodyBytesMax &+ 8)
        valuePlaces = .allocate(capacity: Self.valuePlacesMax)
    }

    func deallocate() {
        bytes.deallocate()
        valuePlaces.deallocate()
    }

    /// Adds the place of a value, unless the template is full. It replaces the places that were added while this value
    /// was read, because they are inside the value.
    ///
    /// - Parameter precedingCount: the number of places before this value was read.
    @inline(__always)
    mutating func addValuePlace(_ nodeIndex: Int, _ start: Int, _ end: Int, after precedingCount: Int) {
        guard precedingCount < Self.valuePlacesMax else { return }
        valuePlaces[precedingCount] = ValuePlace(
            nodeIndex: UInt32(truncatingIfNeeded: nodeIndex),
            start: UInt32(truncatingIfNeeded: start &- stateOffsetInRecord),
            end: UInt32(truncatingIfNeeded: end &- stateOffsetInRecord)
        )
        valuePlaceCount = precedingCount &+ 1
    }

    /// Compares a new state with the template's state. The new state has this template if the two differ only at
    /// ``valuePlaces``, and if each value there fits the declaration of its field (`nodeIndex`).
    ///
    /// Such a state is valid JSON and fits the contract. All bytes before the first different value are equal, so this
    /// value belongs to the same field in both states, and is checked against this field. The same is true for each
    /// further value.
    ///
    /// - Parameter start: the position of the new state, whose bytes have not been validated.
    /// - Returns: the position after the new state; nil if the template has no state, or if it is not certain that the
    ///   new state has this template.
    func endOfMatchingState(at start: Int, in text: JSONText) -> Int? {
        guard let contract else { return nil }
        let checker = ContractChecker(contract: contract, text: text, template: nil)
        var (templateOffset, newStateOffset) = (0, 0)
        var placeIndex = 0
        while true {
            let comparableByteCount = min(stateByteCount &- templateOffset, text.count &- start &- newStateOffset)
            let equalCount = equalByteCount(templateOffset, text, start &+ newStateOffset, atMost: comparableByteCount)
            (templateOffset, newStateOffset) = (templateOffset &+ equalCount, newStateOffset &+ equalCount)
            if templateOffset == stateByteCount { return start &+ newStateOffset }
            while placeIndex < valuePlaceCount, valuePlaces[placeIndex].end < templateOffset { placeIndex &+= 1 }
            guard placeIndex < valuePlaceCount, valuePlaces[placeIndex].start <= templateOffset else { return nil }
            let valueStart = start &+ newStateOffset &- (templateOffset &- Int(valuePlaces[placeIndex].start))
            guard let end = checker.endOfUnvalidatedValue(Int(valuePlaces[placeIndex].nodeIndex), valueStart) else {
                return nil
            }
            (templateOffset, newStateOffset) = (Int(valuePlaces[placeIndex].end), end &- start)
            placeIndex &+= 1
        }
    }

    /// Returns the number of equal bytes before the first difference.
    @inline(__always)
    private func equalByteCount(_ offset: Int, _ text: JSONText, _ position: Int, atMost comparableByteCount: Int)
        -> Int
    {
        var equalCount = 0
        // Compares eight bytes at a time. The last eight may reach beyond `comparableByteCount`, but never beyond the
        // text.
        let wordsEnd = min(comparableByteCount, text.count &- position &- 7)
        while equalCount < wordsEnd {
            let difference = eightBytes(offset &+ equalCount) ^ text.eightBytes(position &+ equalCount)
            if difference != 0 {
                return min(comparableByteCount, equalCount &+ (difference.trailingZeroBitCount &>> 3))
            }
            equalCount &+= 8
        }
        while equalCount < comparableByteCount,
            bytes.load(fromByteOffset: offset &+ equalCount, as: UInt8.self) == text.byte(position &+ equalCount)
        {
            equalCount &+= 1
        }
        return min(comparableByteCount, equalCount)
    }

    @inline(__always)
    private func eightBytes(_ position: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
    }
}

/// The templates (``StateTemplate``) of the last states that were checked completely, and that fit their contract.
///
/// Most states of an app have the same keys in the same order as an earlier state, and differ in a few values. The
/// decoder then reads and checks only the values that differ, which costs very little.
public struct RecentStateTemplates: ~Copyable {
    /// How many templates are remembered. A state that matches no template is compared with each of them, and then read
    /// completely. So more templates would slow down such states (Measurements.md). The number must be a power of two,
    /// because a bit mask limits `lastUsedIndex`.
    static let templatesMax = 4

    /// Nil if no template is ever remembered: no app has a contract, or the caller decodes without templates
    /// (``disabled``), for example a command that Causeway itself wrote.
    private let templates: UnsafeMutablePointer<StateTemplate>?
    /// The index of the template that matched or was made last.
    private var lastUsedIndex = 0
    /// The state of the last record, if decoding found that it matches a remembered template; otherwise absent.
    private var matchedState = ByteRange.absent
    /// The app whose template the state at ``matchedState`` matched.
    private var matchedAppIndex: UInt16 = 0

    /// - Parameter isNeeded: whether any app has a contract.
    public init(isNeeded: Bool) {
        guard isNeeded else {
            templates = nil
            return
        }
        let templates = UnsafeMutablePointer<StateTemplate>.allocate(capacity: Self.templatesMax)
        for index in 0..<Self.templatesMax { (templates + index).initialize(to: StateTemplate()) }
        self.templates = templates
    }

    deinit {
        guard let templates else { return }
        for index in 0..<Self.templatesMax { templates[index].deallocate() }
        templates.deallocate()
    }

    /// A value that never remembers a template, for decoding without contracts.
    static var disabled: RecentStateTemplates { RecentStateTemplates(isNeeded: false) }

    /// Forgets the match of the last record, before the next record is decoded.
    @inline(__always)
    public mutating func forgetMatchedState() { matchedState = .absent }

    /// Skips a state that matches a remembered template, and notes the match for ``hasMatched(_:ofApp:)``.
    ///
    /// - Returns: the position after the state; nil if no template matches, so that the decoder must read the whole
    ///   state.
    @inline(__always)
    mutating func skipMatchingState(at start: Int, in text: JSONText) -> Int? {
        templates == nil ? nil : searchTemplates(forStateAt: start, in: text)
    }

    /// Compares a state with the templates, beginning with the one that was used last. Notes the first match, and
    /// returns the position after the state; nil if no template matches.
    @inline(never)
    private mutating func searchTemplates(forStateAt start: Int, in text: JSONText) -> Int? {
        guard let templates else { return nil }
        for _ in 0..<Self.templatesMax {
            if let end = templates[lastUsedIndex].endOfMatchingState(at: start, in: text) {
                (matchedState, matchedAppIndex) = (ByteRange(from: start, to: end), templates[lastUsedIndex].appIndex)
                return end
            }
            lastUsedIndex = (lastUsedIndex &+ 1) & (Self.templatesMax &- 1)
        }
        return nil
    }

    /// Whether decoding found that the command's state matches a template of this app. The state then fits the app's
    /// contract. False for a start, whose attributes must be checked too.
    @inline(__always)
    public func hasMatched(_ command: Command, ofApp appIndex: UInt16) -> Bool {
        !matchedState.isAbsent && matchedState == command.contentState && matchedAppIndex == appIndex
            && command.event != .start
    }

    /// Whether the command's state matches any remembered template of this app. Call this if ``hasMatched(_:ofApp:)``
    /// is false: decoding notes only the first template that matches, perhaps a template of another app.
    ///
    /// False if decoding found no template at all, and for a start, whose attributes must be checked too.
    public func matchesAnyTemplate(
        _ command: Command,
        ofApp appIndex: UInt16,
        in record: UnsafeRawBufferPointer
    ) -> Bool {
        guard let templates, !matchedState.isAbsent, matchedState == command.contentState, command.event != .start,
            let text = try? JSONText(record)
        else { return false }
        return (0..<Self.templatesMax)
            .contains { index in
                templates[index].appIndex == appIndex
                    && templates[index].endOfMatchingState(at: Int(matchedState.offset), in: text)
                        == matchedState.end
            }
    }

    /// Checks a command against its app's contract, and throws the mismatch if the command does not fit. If the command
    /// is an update or end with a state of at most ``Limits/bodyBytesMax``, the template of this state replaces a
    /// remembered one. If the command does not fit, that remembered template is only forgotten.
    public mutating func checkAndRemember(
        _ command: Command,
        ofApp appIndex: UInt16,
        _ contract: UnmanagedContract,
        in record: UnsafeRawBufferPointer
    ) throws(ContractMismatch) {
        let isRemembered = command.event != .start && 1...Limits.bodyBytesMax ~= Int(command.contentState.count)
        guard isRemembered, let templates else { return try contract.check(command, in: record) }
        lastUsedIndex = (lastUsedIndex &+ 1) & (Self.templatesMax &- 1)
        let template = templates + lastUsedIndex
        template.pointee.contract = nil
        template.pointee.stateOffsetInRecord = Int(command.contentState.offset)
        try contract.check(command, in: record, recordingIn: template)
        let state = command.contentState.bytes(in: record)
        if let base = state.baseAddress { template.pointee.bytes.copyMemory(from: base, byteCount: state.count) }
        (template.pointee.appIndex, template.pointee.contract, template.pointee.stateByteCount) = (
            appIndex, contract, state.count
        )
    }
}
