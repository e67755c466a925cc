/// A field's value in a state, by its declaration and its place. Positions count from the state's start.
struct NotedValue: BitwiseCopyable {
    var node: UInt32
    var start: UInt32
    var end: UInt32
}

/// A state that fits its contract, and the places of the values that another state of the same form may have otherwise.
struct StateForm: BitwiseCopyable {
    /// All further values must be the same.
    static let valuesMax = 128

    var application: UInt16 = 0
    /// The state's length; 0: no state.
    var count = 0
    /// Where the state begins in the record that is walked.
    var origin = 0
    /// The number of noted values, in the order of their places. They do not overlap.
    var valueCount = 0
    /// Room for the largest state, of ``Limits/bodyBytes``, and for reading eight bytes at its last one.
    let bytes: UnsafeMutableRawPointer
    let values: UnsafeMutablePointer<NotedValue>

    init() {
        bytes = .allocate(byteCount: Limits.bodyBytes &+ 8, alignment: 16)
        bytes.initializeMemory(as: UInt8.self, repeating: 0, count: Limits.bodyBytes &+ 8)
        values = .allocate(capacity: Self.valuesMax)
    }

    func deallocate() {
        bytes.deallocate()
        values.deallocate()
    }

    /// Notes a value in place of all that was noted inside it.
    /// - Parameter count: the number of values that were noted before it.
    @inline(__always)
    mutating func note(_ node: Int, _ start: Int, _ end: Int, after count: Int) {
        guard count < Self.valuesMax else { return }
        values[count] = NotedValue(
            node: UInt32(truncatingIfNeeded: node),
            start: UInt32(truncatingIfNeeded: start &- origin),
            end: UInt32(truncatingIfNeeded: end &- origin)
        )
        valueCount = count &+ 1
    }

    /// Whether a state has the same bytes, or, where a noted value is, a value that fits its declaration.
    ///
    /// The bytes before a difference are the same, so the value of the other state begins and is declared there too.
    func matches(_ state: ByteRange, in walk: ContractWalk) -> Bool {
        let (start, length) = (Int(state.offset), Int(state.count))
        // Positions in this state and in the other.
        var (own, other) = (0, 0)
        var next = 0
        while true {
            let same = equalBytes(own, walk.text, start &+ other, atMost: min(count &- own, length &- other))
            (own, other) = (own &+ same, other &+ same)
            if own == count, other == length { return true }
            while next < valueCount, values[next].end < own { next &+= 1 }
            guard next < valueCount, values[next].start <= own else { return false }
            let begin = start &+ other &- (own &- Int(values[next].start))
            guard let end = try? walk.fieldValue(Int(values[next].node), begin) else { return false }
            (own, other) = (Int(values[next].end), end &- start)
            next &+= 1
        }
    }

    /// The number of bytes up to the first difference.
    @inline(__always)
    private func equalBytes(_ own: Int, _ text: JSONText, _ other: Int, atMost most: Int) -> Int {
        var same = 0
        // The bytes behind `most` do not matter, but must be there.
        let wordsEnd = min(most, text.count &- other &- 7)
        while same < wordsEnd {
            let difference = eightBytes(own &+ same) ^ text.eightBytes(other &+ same)
            if difference != 0 { return min(most, same &+ (difference.trailingZeroBitCount &>> 3)) }
            same &+= 8
        }
        while same < most, bytes.load(fromByteOffset: own &+ same, as: UInt8.self) == text.byte(other &+ same) {
            same &+= 1
        }
        return min(most, same)
    }

    @inline(__always)
    private func eightBytes(_ position: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
    }
}

/// The forms of the last states that were walked and fit.
///
/// The states of an app mostly have the keys of a state before, in its order, and differ in a few values. Then only these are read.
public struct StateForms: ~Copyable {
    static let formsMax = 4

    private let forms: UnsafeMutableBufferPointer<StateForm>
    /// The form that the last state had.
    private var last = 0

    /// - Parameter isNeeded: whether there is any contract.
    public init(isNeeded: Bool) {
        forms = .allocate(capacity: isNeeded ? Self.formsMax : 0)
        for place in forms.indices { forms.initializeElement(at: place, to: StateForm()) }
    }

    deinit {
        for form in forms { form.deallocate() }
        forms.deallocate()
    }

    /// Whether the state has the form of a state of the app that fits. Starts are not compared.
    public mutating func match(
        _ command: Command,
        ofApp application: UInt16,
        _ image: ContractImage,
        in record: UnsafeRawBufferPointer
    ) -> Bool {
        guard command.event != .start, let text = try? JSONText(record) else { return false }
        let walk = ContractWalk(image: image, text: text, form: nil)
        for _ in 0..<forms.count {
            let form = forms.baseAddress.unsafelyUnwrapped + last
            if form.pointee.count > 0, form.pointee.application == application,
                form.pointee.matches(command.contentState, in: walk)
            {
                return true
            }
            last = (last &+ 1) & (Self.formsMax &- 1)
        }
        return false
    }

    /// Checks a command, and remembers the form of its state if it fits.
    public mutating func check(
        _ command: Command,
        ofApp application: UInt16,
        _ image: ContractImage,
        in record: UnsafeRawBufferPointer
    ) throws(ContractMismatch) {
        let isRemembered = command.event != .start && 1...Limits.bodyBytes ~= Int(command.contentState.count)
        guard isRemembered, let first = forms.baseAddress else { return try image.check(command, in: record) }
        last = (last &+ 1) & (Self.formsMax &- 1)
        let form = first + last
        form.pointee.count = 0
        form.pointee.origin = Int(command.contentState.offset)
        try image.check(command, in: record, noting: form)
        let state = command.contentState.bytes(in: record)
        if let base = state.baseAddress { form.pointee.bytes.copyMemory(from: base, byteCount: state.count) }
        (form.pointee.application, form.pointee.count) = (application, state.count)
    }
}
