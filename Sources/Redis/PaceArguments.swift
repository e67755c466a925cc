import Glibc

/// A bucket of pushes that gains one every interval and starts full.
public struct BucketNumbers: Sendable, Hashable {
    public static let pushesMax = 10_000
    public static let intervalMillisecondsMax: Int64 = 3_600_000
    static let bytes = 17

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

    /// Writes the interval in seven digits, pushes and reserve in five each.
    func write(to destination: UnsafeMutableRawPointer) {
        Decimal.write(UInt64(intervalMilliseconds), digits: 7, to: destination)
        Decimal.write(UInt64(pushes), digits: 5, to: destination + 7)
        Decimal.write(UInt64(reserved), digits: 5, to: destination + 12)
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

/// The numbers of a policy as the scripts take them, rendered once, when a worker starts.
///
/// The three times in seven digits each, the bucket and the frequent bucket.
public struct PaceArguments: Sendable {
    static let bytes = 55
    private static let timeDigits = 7

    private let text: InlineArray<55, UInt8>

    public init(_ numbers: PaceNumbers) {
        text = InlineArray(initializingWith: { span in
            span.withUnsafeMutableBufferPointer { buffer, count in
                guard let start = buffer.baseAddress.map({ UnsafeMutableRawPointer($0) }) else { return }
                let times = [
                    numbers.spacingMilliseconds, numbers.throttledSpacingMaxMilliseconds,
                    numbers.throttleRecoveryMilliseconds,
                ]
                for (index, time) in times.enumerated() {
                    Decimal.write(UInt64(time), digits: Self.timeDigits, to: start + index * Self.timeDigits)
                }
                let buckets = start + times.count * Self.timeDigits
                numbers.budget.write(to: buckets)
                numbers.frequentBudget.write(to: buckets + BucketNumbers.bytes)
                count = buffer.count
            }
        })
    }

    func write(to destination: UnsafeMutableRawPointer) {
        text.span.withUnsafeBytes {
            destination.copyMemory(from: $0.baseAddress.unsafelyUnwrapped, byteCount: $0.count)
        }
    }

    /// Whether these ``bytes`` are what it writes.
    func isWritten(in bytes: UnsafeRawBufferPointer) -> Bool {
        text.span.withUnsafeBytes {
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

    /// The three as the bits of a digit.
    var digit: UInt8 {
        UInt8(ascii: "0") + (isHigh ? 1 : 0) + (mayUseReserve ? 2 : 0) + (carriesAlert ? 4 : 0)
    }
}
