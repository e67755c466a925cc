import Delivery

/// Lets tests write an index as a number. The sources must not do this: there, a number is no index until a slab has
/// given it out.
extension SlabIndex: ExpressibleByIntegerLiteral {
    public init(integerLiteral rawValue: UInt32) { self.init(rawValue: rawValue) }
}
