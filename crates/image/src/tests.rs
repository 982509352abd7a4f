mod claims;
mod damage;
mod durability;
mod early;
mod fixture;
mod keys;
mod parents;
mod round_trip;
