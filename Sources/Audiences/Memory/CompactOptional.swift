/// An optional number of a slot, in 8 bytes instead of 16. The lowest `Int64` means nil, so it cannot be a value.
@propertyWrapper
struct CompactOptional: BitwiseCopyable {
    private var number = Int64.min

    init() {}

    var wrappedValue: Int64? {
        @inline(__always) get { number == .min ? nil : number }
        @inline(__always) set {
            precondition(newValue != .min, "the lowest number means nil")
            number = newValue ?? .min
        }
    }
}
