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
    /// The contract of the application, whose nodes the noted values name; nil: no state.
    var image: ContractImage?
    /// The state's length.
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

    /// Reads a value that has the same bytes as the state, or, where a noted value is, a value that fits its declaration.
    ///
    /// The bytes before a difference are the same, so the value of the other state begins and is declared there too. The state is valid
    /// JSON that ends with its own brace, and a value in another's place is valid too, so all that is read is one valid JSON object.
    /// - Parameter start: the position of the value. Nothing is known of the bytes from there on.
    /// - Returns: the position after the value; nil if it has another form, or is nested so deeply that only the decoder can tell.
    func end(ofStateAt start: Int, in text: JSONText) -> Int? {
        guard let image else { return nil }
        let walk = ContractWalk(image: image, text: text, form: nil)
        // Positions in this state and in the other.
        var (own, other) = (0, 0)
        var next = 0
        while true {
            let same = equalBytes(own, text, start &+ other, atMost: min(count &- own, text.count &- start &- other))
            (own, other) = (own &+ same, other &+ same)
            if own == count { return start &+ other }
            while next < valueCount, values[next].end < own { next &+= 1 }
            guard next < valueCount, values[next].start <= own else { return nil }
            let begin = start &+ other &- (own &- Int(values[next].start))
            guard let end = walk.unknownValue(Int(values[next].node), begin) else { return nil }
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
/// The states of an app mostly have the keys of a state before, in its order, and differ in a few values. Then only these are read: by the
/// decoder, in place of the whole state. So comparing such a state with its shapes costs next to nothing.
public struct StateForms: ~Copyable {
    static let formsMax = 4

    /// Nil: nothing is remembered.
    private let forms: UnsafeMutablePointer<StateForm>?
    /// The form that the last state had.
    private var last = 0
    /// The state that the decoder read by a form, and the form's application; absent if it read none.
    private var read = ByteRange.absent
    private var readApplication: UInt16 = 0

    /// - Parameter isNeeded: whether there is any contract.
    public init(isNeeded: Bool) {
        guard isNeeded else {
            forms = nil
            return
        }
        let forms = UnsafeMutablePointer<StateForm>.allocate(capacity: Self.formsMax)
        for place in 0..<Self.formsMax { (forms + place).initialize(to: StateForm()) }
        self.forms = forms
    }

    deinit {
        guard let forms else { return }
        for place in 0..<Self.formsMax { forms[place].deallocate() }
        forms.deallocate()
    }

    /// Remembers nothing and costs nothing.
    static var nothing: StateForms { StateForms(isNeeded: false) }

    /// Forgets what was read of the record before.
    @inline(__always)
    public mutating func beginRecord() { read = .absent }

    /// Reads a state that has a remembered form.
    /// - Returns: the position after it; nil if it must be read in the usual way.
    @inline(__always)
    mutating func end(ofStateAt start: Int, in text: JSONText) -> Int? {
        forms == nil ? nil : find(formOfStateAt: start, in: text)
    }

    @inline(never)
    private mutating func find(formOfStateAt start: Int, in text: JSONText) -> Int? {
        guard let forms else { return nil }
        for _ in 0..<Self.formsMax {
            if let end = forms[last].end(ofStateAt: start, in: text) {
                (read, readApplication) = (ByteRange(from: start, to: end), forms[last].application)
                return end
            }
            last = (last &+ 1) & (Self.formsMax &- 1)
        }
        return nil
    }

    /// Whether the decoder has found that the command's state fits the contract of its application. Not known of a start.
    @inline(__always)
    public func hasRead(_ command: Command, ofApp application: UInt16) -> Bool {
        !read.isAbsent && read == command.contentState && readApplication == application && command.event != .start
    }

    /// Whether the state has the form of a state of the app that fits, although the decoder read it by another app's form. If the decoder
    /// has read it by none, it has none. Starts are not compared.
    public mutating func match(
        _ command: Command,
        ofApp application: UInt16,
        in record: UnsafeRawBufferPointer
    ) -> Bool {
        guard let forms, !read.isAbsent, read == command.contentState, command.event != .start,
            let text = try? JSONText(record)
        else { return false }
        return (0..<Self.formsMax)
            .contains { place in
                forms[place].application == application
                    && forms[place].end(ofStateAt: Int(read.offset), in: text) == read.end
            }
    }

    /// Checks a command, and remembers the form of its state if it fits.
    public mutating func check(
        _ command: Command,
        ofApp application: UInt16,
        _ image: ContractImage,
        in record: UnsafeRawBufferPointer
    ) throws(ContractMismatch) {
        let isRemembered = command.event != .start && 1...Limits.bodyBytes ~= Int(command.contentState.count)
        guard isRemembered, let forms else { return try image.check(command, in: record) }
        last = (last &+ 1) & (Self.formsMax &- 1)
        let form = forms + last
        form.pointee.image = nil
        form.pointee.origin = Int(command.contentState.offset)
        try image.check(command, in: record, noting: form)
        let state = command.contentState.bytes(in: record)
        if let base = state.baseAddress { form.pointee.bytes.copyMemory(from: base, byteCount: state.count) }
        (form.pointee.application, form.pointee.image, form.pointee.count) = (application, image, state.count)
    }
}
