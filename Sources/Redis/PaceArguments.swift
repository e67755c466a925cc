import Glibc

/// A bucket of pushes that gains one every interval and starts full.
public struct BucketNumbers: Sendable, Hashable {
    public static let pushesMax = 10_000
    public static let intervalMillisecondsMax: Int64 = 3_600_000
    static let bytes = 7

    /// Time in which a push is gained: 1 through ``intervalMillisecondsMax``.
    public let intervalMilliseconds: Int64
    /// What a full bucket holds: 1 through ``pushesMax``.
    public let pushes: Int
    /// How many of them only requests that may use the reserve take: 0 through `pushes`.
    public let reserved: Int

    /// What is out of range counts as the nearer end of it.
    public init(intervalMilliseconds: Int64, pushes: Int, reserved: Int) {
        self.intervalMilliseconds = min(max(1, intervalMilliseconds), Self.intervalMillisecondsMax)
        self.pushes = min(max(1, pushes), Self.pushesMax)
        self.reserved = min(max(0, reserved), self.pushes)
    }

    /// Writes the interval in three bytes, pushes and reserve in two each.
    func write(to destination: UnsafeMutableRawPointer) {
        LittleEndian.write(UInt64(intervalMilliseconds), bytes: 3, to: destination)
        LittleEndian.write(UInt64(pushes), bytes: 2, to: destination + 3)
        LittleEndian.write(UInt64(reserved), bytes: 2, to: destination + 5)
    }
}

/// The numbers of a policy that the scripts decide by. What is out of range counts as the nearer end of it.
public struct PaceNumbers: Sendable, Hashable {
    public static let millisecondsMax: Int64 = 3_600_000

    /// The least time between two send verdicts of an activity. 0 through ``millisecondsMax``.
    public let spacingMilliseconds: Int64
    /// What the spacing is doubled up to, once for each time that APNs limits the token (429). Likewise.
    public let throttledSpacingMaxMilliseconds: Int64
    /// How long without another 429 takes a doubling back. 1 through ``millisecondsMax``.
    public let throttleRecoveryMilliseconds: Int64
    /// Pushes of priority 10.
    public let budget: BucketNumbers
    /// The same while the last registration allowed frequent updates.
    public let frequentBudget: BucketNumbers

    public init(
        spacingMilliseconds: Int64,
        throttledSpacingMaxMilliseconds: Int64,
        throttleRecoveryMilliseconds: Int64,
        budget: BucketNumbers,
        frequentBudget: BucketNumbers
    ) {
        self.spacingMilliseconds = min(max(0, spacingMilliseconds), Self.millisecondsMax)
        self.throttledSpacingMaxMilliseconds = min(max(0, throttledSpacingMaxMilliseconds), Self.millisecondsMax)
        self.throttleRecoveryMilliseconds = min(max(1, throttleRecoveryMilliseconds), Self.millisecondsMax)
        self.budget = budget
        self.frequentBudget = frequentBudget
    }
}

/// What a bucket holds and in which time it gains one, for a connection's own reckoning.
struct BucketSize: Hashable {
    var intervalMilliseconds: UInt32 = 1
    var pushes: UInt16 = 0

    /// What is left of it, whole pushes.
    func left(fullAtMilliseconds: UInt64, nowMilliseconds: UInt64) -> Int {
        guard fullAtMilliseconds > nowMilliseconds else { return Int(pushes) }
        let missing = (fullAtMilliseconds - nowMilliseconds - 1) / UInt64(intervalMilliseconds) + 1
        return missing < UInt64(pushes) ? Int(pushes) - Int(missing) : 0
    }
}

extension BucketSize {
    init(_ numbers: BucketNumbers) {
        // Both are within limits far below.
        intervalMilliseconds = UInt32(numbers.intervalMilliseconds)
        pushes = UInt16(numbers.pushes)
    }
}

/// The numbers of a policy as the scripts take them, rendered once, when a worker starts.
///
/// The spacing and the bucket, the spacing again and the frequent bucket, so that what an admission goes by lies together; then the
/// longest spacing and the time of recovery. Times take three bytes each.
public struct PaceArguments: Sendable {
    static let bytes = 26
    private static let timeBytes = 3

    private let numbers: InlineArray<26, UInt8>
    let budget: BucketSize
    let frequentBudget: BucketSize

    public init(_ numbers: PaceNumbers) {
        budget = BucketSize(numbers.budget)
        frequentBudget = BucketSize(numbers.frequentBudget)
        self.numbers = InlineArray(initializingWith: { span in
            span.withUnsafeMutableBufferPointer { buffer, count in
                guard let start = buffer.baseAddress.map({ UnsafeMutableRawPointer($0) }) else { return }
                func write(_ milliseconds: Int64, at position: Int) {
                    LittleEndian.write(UInt64(milliseconds), bytes: Self.timeBytes, to: start + position)
                }
                var position = 0
                for bucket in [numbers.budget, numbers.frequentBudget] {
                    write(numbers.spacingMilliseconds, at: position)
                    bucket.write(to: start + position + Self.timeBytes)
                    position += Self.timeBytes + BucketNumbers.bytes
                }
                write(numbers.throttledSpacingMaxMilliseconds, at: position)
                write(numbers.throttleRecoveryMilliseconds, at: position + Self.timeBytes)
                count = buffer.count
            }
        })
    }

    func write(to destination: UnsafeMutableRawPointer) {
        numbers.span.withUnsafeBytes {
            destination.copyMemory(from: $0.baseAddress.unsafelyUnwrapped, byteCount: $0.count)
        }
    }

    /// Whether these ``bytes`` are what it writes.
    func isWritten(in bytes: UnsafeRawBufferPointer) -> Bool {
        numbers.span.withUnsafeBytes {
            memcmp($0.baseAddress.unsafelyUnwrapped, bytes.baseAddress.unsafelyUnwrapped, Self.bytes) == 0
        }
    }
}

/// How a command asks to be pushed.
public struct PushRequest: Sendable, Hashable {
    /// Priority 10, as far as the bucket allows; otherwise 5, which draws nothing.
    public var isHigh: Bool
    /// It may take what is reserved: it carries an alert, or is an end.
    public var mayUseReserve: Bool
    /// It carries an alert, its own or the held command's, or has found that the held command's does not fit: it is not told of
    /// that again.
    public var carriesAlert: Bool

    public init(isHigh: Bool, mayUseReserve: Bool, carriesAlert: Bool) {
        self.isHigh = isHigh
        self.mayUseReserve = mayUseReserve
        self.carriesAlert = carriesAlert
    }

    var bits: UInt8 { (isHigh ? 1 : 0) + (mayUseReserve ? 2 : 0) + (carriesAlert ? 4 : 0) }
}
