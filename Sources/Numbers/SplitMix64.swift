/// A small, fast random number generator; the same seed repeats the same numbers. Not for secrets.
///
/// The algorithm is SplitMix64 (https://prng.di.unimi.it/splitmix64.c). The cores, the simulator and the tests take
/// their random numbers from this generator, so that one seed repeats a whole run.
public struct SplitMix64: RandomNumberGenerator, Sendable {
    @usableFromInline var state: UInt64

    @inlinable
    public init(seed: UInt64) { state = seed }

    @inlinable
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Returns a number in `0..<bound`; 0 if `bound` is 0.
    @inlinable
    public mutating func next(below bound: UInt64) -> UInt64 {
        bound == 0 ? 0 : next().multipliedFullWidth(by: bound).high
    }

    /// Returns a random pause before a retry: longer than half of `milliseconds`, and at most `milliseconds`. So calls
    /// that failed together are not repeated together.
    /// - Precondition: `milliseconds` is at least 1.
    public mutating func jitteredMilliseconds(_ milliseconds: Int64) -> Int64 {
        let halfMilliseconds = milliseconds / 2
        return halfMilliseconds + Int64(next(below: UInt64(milliseconds - halfMilliseconds))) + 1
    }

    /// Returns a random number that is not 0. The id of a trace or span must not be 0
    /// (https://www.w3.org/TR/trace-context/).
    @inlinable
    public mutating func nextNonzero() -> UInt64 {
        let number = next()
        return number == 0 ? 1 : number
    }

    /// Returns a random UUID (RFC 9562, version 4) as two halves.
    @inlinable
    public mutating func nextUUID() -> (UInt64, UInt64) {
        ((next() & ~0xF000) | 0x4000, (next() & ~(3 << 62)) | (2 << 62))
    }
}
