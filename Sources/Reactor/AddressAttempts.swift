/// The addresses of a host that a client still has to try, one after another until a deadline.
///
/// Each address gets an equal share of the time that is left. So an address that never responds leaves time for the
/// other addresses, for example an IPv6 address in a network that drops its packets.
public struct AddressAttempts {
    /// A client tries at most this many addresses of a host.
    public static let addressesMax = 8

    private var untriedAddresses: ArraySlice<SocketAddress>
    private let deadlineMilliseconds: Int64

    /// - Parameters:
    ///   - addresses: the first `addressesMax` of them are tried, in this order.
    ///   - deadlineMilliseconds: when the last attempt must have ended, on the monotonic clock.
    public init(_ addresses: [SocketAddress], deadlineMilliseconds: Int64) {
        untriedAddresses = addresses.prefix(Self.addressesMax)
        self.deadlineMilliseconds = deadlineMilliseconds
    }

    /// Returns the next address, and how long its attempt may take: at least 1 ms. Returns nil if all addresses have
    /// been tried.
    public mutating func next(nowMilliseconds: Int64) -> (address: SocketAddress, timeoutMilliseconds: Int64)? {
        let remainingMilliseconds = deadlineMilliseconds - nowMilliseconds
        let shareMilliseconds = remainingMilliseconds / Int64(max(1, untriedAddresses.count))
        guard let address = untriedAddresses.popFirst() else { return nil }
        return (address, max(1, shareMilliseconds))
    }
}
