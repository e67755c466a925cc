/// The core's own source of chance (SplitMix64). Back-off jitter and `apns-id` come from it, so that one seed repeats a whole
/// run.
package struct Randomness {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }

    /// A number in 0..<bound.
    package mutating func next(below bound: UInt64) -> UInt64 {
        bound == 0 ? 0 : next().multipliedFullWidth(by: bound).high
    }

    /// A random UUID (RFC 9562, version 4) as two halves.
    package mutating func nextIdentifier() -> (UInt64, UInt64) {
        ((next() & ~0xF000) | 0x4000, (next() & ~(3 << 62)) | (2 << 62))
    }
}
